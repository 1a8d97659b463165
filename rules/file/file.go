package file

import (
	"errors"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/rules/match"
)

// A Document is the content of a rules file.
type Document struct {
	// Rules are the rules in the order of the file.
	Rules []rules.Rule `field:"rules"`
	// Clients are the clients that are registered in the file.
	Clients []rules.Client `field:"clients"`

	file *source.File
}

// Fields returns the names in a file of the fields of a struct of the model.
func Fields(t reflect.Type) []string { return source.Names(t) }

// Parse parses a file. It is JSON or YAML by the extension of its name (.json, .yaml, .yml), or by its content. Parse
// validates rules and clients, each alone and all together.
//
// The error is a *source.Error that lists all problems, and wraps rules.ErrInvalid or source.ErrSyntax.
func Parse(name string, data []byte) (*Document, error) {
	f, err := source.Read(name, data)
	if err != nil {
		return nil, err
	}
	return FromSource(f)
}

// FromSource is Parse for a file that is already parsed into nodes.
func FromSource(f *source.File) (*Document, error) {
	doc := &Document{file: f}
	problems := newCodec().Decode(f, doc)
	more := 0
	if len(problems) > source.MaxProblems { // the rest was not decoded
		return nil, f.Error(problems, 0, rules.ErrInvalid)
	}
	var invalid *rules.Error
	if err := rules.Validate(doc.Rules, doc.Clients...); errors.As(err, &invalid) {
		problems, more = append(problems, doc.locate(invalid.Problems, problems)...), invalid.More
	}
	if err := f.Error(problems, more, rules.ErrInvalid); err != nil {
		return nil, err
	}
	return doc, nil
}

// Load reads and parses a file.
func Load(path string) (*Document, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Compile compiles the rules and clients of a document.
func (d *Document) Compile() (*match.Set, error) { return match.Compile(d.Rules, d.Clients...) }

// Compile compiles the rules and clients of several documents into one set. Rules with the same priority are in the
// order of the documents. For a duplicate rule the error names both documents.
func Compile(docs ...*Document) (*match.Set, error) {
	var all []rules.Rule
	var clients []rules.Client
	for _, d := range docs {
		all, clients = append(all, d.Rules...), append(clients, d.Clients...)
	}
	set, err := match.Compile(all, clients...)
	var invalid *rules.Error
	if !errors.As(err, &invalid) {
		return set, err
	}
	problems := make(map[*Document][]source.Problem, len(docs))
	for _, p := range invalid.Problems {
		d, path := owner(docs, p.Path)
		if d == nil {
			return nil, err // a problem of all documents together
		}
		problem := d.problem(path, p)
		if other, path := owner(docs, p.Other); other != nil {
			problem.Want = p.Want + "; " + other.mention(path, d) + " has this one"
		}
		problems[d] = append(problems[d], problem)
	}
	var failed []error
	for _, d := range docs {
		if err := d.source().Error(problems[d], 0, rules.ErrInvalid); err != nil {
			failed = append(failed, err)
		}
	}
	return nil, errors.Join(failed...)
}

// owner returns the document that a path in the combined list belongs to, and the path in that document; nil if there
// is none.
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

// mention describes a position in the document in a message about the document reader.
func (d *Document) mention(path string, reader *Document) string {
	line, _ := d.source().Locate(path)
	if d == reader {
		return "line " + strconv.Itoa(line)
	}
	return d.source().Name + ":" + strconv.Itoa(line)
}

// shift returns a path in one document for a path in the combined list, in which before elements come first.
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

// locate adds positions to problems of validation, without those that follow from problems of decoding.
func (d *Document) locate(invalid []rules.Problem, problems []source.Problem) []source.Problem {
	var located []source.Problem
	for _, p := range invalid {
		if !source.Follows(p.Path, problems) {
			located = append(located, d.problem(p.Path, p))
		}
	}
	return located
}

func (d *Document) problem(path string, p rules.Problem) source.Problem {
	located := source.Problem{Path: path, Value: p.Value, Want: p.Want}
	located.Line, located.Column = d.source().Locate(path)
	if p.Other != "" {
		located.Want += "; " + d.mention(p.Other, d) + " has this one"
	}
	return located
}

// source returns the file that the document was parsed from, an empty one if there was none.
func (d *Document) source() *source.File {
	if d.file == nil {
		return &source.File{Name: "rules"}
	}
	return d.file
}

// YAML formats the document. Parsing the result returns the same rules and clients.
func (d *Document) YAML() []byte { return source.YAML(newCodec().Encode(*d)) }

// JSON formats the document. Parsing the result returns the same rules and clients.
func (d *Document) JSON() []byte { return source.JSON(newCodec().Encode(*d)) }
