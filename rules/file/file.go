package file

import (
	"errors"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/source"
)

// A Document is what a rules file holds.
type Document struct {
	// Rules are the rules in the order of the file.
	Rules []rules.Rule `field:"rules"`
	// Clients are the clients that are registered in the file.
	Clients []rules.Client `field:"clients"`

	file *source.File
}

// Fields returns the names of the fields that a struct of the model has in a file.
func Fields(t reflect.Type) []string { return source.Names(t) }

// Parse reads a file. Its name tells whether it is JSON (.json) or YAML (.yaml, .yml), if it has such an ending. Rules and
// clients have been validated on their own and together.
//
// The error is a *source.Error that lists everything that is wrong, and wraps rules.ErrInvalid or source.ErrSyntax.
func Parse(name string, data []byte) (*Document, error) {
	f, err := source.Read(name, data)
	if err != nil {
		return nil, err
	}
	return FromSource(f)
}

// FromSource is Parse for a file that has been read.
func FromSource(f *source.File) (*Document, error) {
	doc := &Document{file: f}
	found := newCodec().Decode(f, doc)
	more := 0
	if len(found) > source.MaxProblems { // the rest was not decoded
		return nil, f.Error(found, 0, rules.ErrInvalid)
	}
	var invalid *rules.Error
	if err := rules.Validate(doc.Rules, doc.Clients...); errors.As(err, &invalid) {
		found, more = append(found, doc.locate(invalid.Problems, found)...), invalid.More
	}
	if err := f.Error(found, more, rules.ErrInvalid); err != nil {
		return nil, err
	}
	return doc, nil
}

// Load reads a file from disk.
func Load(path string) (*Document, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Compile makes the rules and clients of a document ready.
func (d *Document) Compile() (*rules.Set, error) { return rules.Compile(d.Rules, d.Clients...) }

// Compile makes the rules and clients of several documents ready as one. The order of rules with the same priority is that
// of the documents. The error says in which document a rule is that another has as well.
func Compile(docs ...*Document) (*rules.Set, error) {
	var all []rules.Rule
	var clients []rules.Client
	for _, d := range docs {
		all, clients = append(all, d.Rules...), append(clients, d.Clients...)
	}
	set, err := rules.Compile(all, clients...)
	var invalid *rules.Error
	if !errors.As(err, &invalid) {
		return set, err
	}
	found := make(map[*Document][]source.Problem, len(docs))
	for _, p := range invalid.Problems {
		d, path := owner(docs, p.Path)
		if d == nil {
			return nil, err // it is about all of them together
		}
		made := d.problem(path, p)
		if other, path := owner(docs, p.Other); other != nil {
			made.Want = p.Want + "; " + other.mention(path, d) + " has this one"
		}
		found[d] = append(found[d], made)
	}
	var failed []error
	for _, d := range docs {
		if err := d.source().Error(found[d], 0, rules.ErrInvalid); err != nil {
			failed = append(failed, err)
		}
	}
	return nil, errors.Join(failed...)
}

// owner returns which of several documents a path of all of them leads into, and the path there; nil for none.
func owner(docs []*Document, path string) (*Document, string) {
	beforeRules, beforeClients := 0, 0
	for _, d := range docs {
		if here, ok := shift(path, "rules[", beforeRules, len(d.Rules)); ok {
			return d, here
		}
		if here, ok := shift(path, "clients[", beforeClients, len(d.Clients)); ok {
			return d, here
		}
		beforeRules += len(d.Rules)
		beforeClients += len(d.Clients)
	}
	return nil, ""
}

// mention names a place in the document to a reader of another, or of the same.
func (d *Document) mention(path string, reader *Document) string {
	line, _ := d.source().Locate(path)
	if d == reader {
		return "line " + strconv.Itoa(line)
	}
	return d.source().Name + ":" + strconv.Itoa(line)
}

// shift returns a path within one of several documents: the elements of its list come after those before it.
func shift(path, list string, before, count int) (string, bool) {
	rest, ok := strings.CutPrefix(path, list)
	if !ok {
		return "", false
	}
	number, rest, _ := strings.Cut(rest, "]")
	i, err := strconv.Atoi(number)
	if err != nil || i < before || i >= before+count {
		return "", false
	}
	return list + strconv.Itoa(i-before) + "]" + rest, true
}

// locate finds the places of what validation found wrong, leaving out what follows from what reading found wrong.
func (d *Document) locate(invalid []rules.Problem, found []source.Problem) []source.Problem {
	var located []source.Problem
	for _, p := range invalid {
		if !source.Follows(p.Path, found) {
			located = append(located, d.problem(p.Path, p))
		}
	}
	return located
}

func (d *Document) problem(path string, p rules.Problem) source.Problem {
	made := source.Problem{Path: path, Value: p.Value, Want: p.Want}
	made.Line, made.Column = d.source().Locate(path)
	if p.Other != "" {
		made.Want += "; " + d.mention(p.Other, d) + " has this one"
	}
	return made
}

// source returns the file that the document was read from, an empty one if there was none.
func (d *Document) source() *source.File {
	if d.file == nil {
		return &source.File{Name: "rules"}
	}
	return d.file
}

// YAML writes the document. Reading it gives the same rules and clients.
func (d *Document) YAML() []byte { return source.YAML(newCodec().Encode(*d)) }

// JSON writes the document. Reading it gives the same rules and clients.
func (d *Document) JSON() []byte { return source.JSON(newCodec().Encode(*d)) }
