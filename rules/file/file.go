package file

import (
	"errors"
	"fmt"
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

// Fields returns the field names that rules files use for a struct type, such as rules.Rule.
func Fields(t reflect.Type) []string { return source.Names(t) }

// Parse parses and validates a file in JSON or YAML. The extension of its name (.json, .yaml, .yml) selects the format.
// A file with another extension is JSON if its content is valid JSON.
//
// The error is a *source.Error that lists all problems, and wraps rules.ErrInvalid or source.ErrSyntax.
func Parse(name string, data []byte) (*Document, error) {
	f, err := source.Read(name, data)
	if err != nil {
		return nil, err
	}
	return FromSource(f)
}

// FromSource is like Parse, but for a file that has already been parsed into nodes.
func FromSource(f *source.File) (*Document, error) {
	doc := &Document{file: f}
	problems := newCodec().Decode(f, doc)
	if len(problems) > source.MaxProblems { // the decoder stopped before the end of the file
		return nil, f.Error(problems, 0, rules.ErrInvalid)
	}
	unlisted := 0            // the number of problems that are not in the list
	var invalid *rules.Error // Validate returns no other errors
	if err := rules.Validate(doc.Rules, doc.Clients...); errors.As(err, &invalid) {
		problems, unlisted = append(problems, doc.locate(invalid.Problems, problems)...), invalid.More
	}
	if err := f.Error(problems, unlisted, rules.ErrInvalid); err != nil {
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
	if err == nil {
		return set, nil
	}
	var invalid *rules.Error
	if !errors.As(err, &invalid) {
		return nil, err
	}
	problems := make(map[*Document][]source.Problem, len(docs))
	for _, p := range invalid.Problems {
		d, path := owner(docs, p.Path)
		if d == nil { // the problem, such as too many rules, has no position in one of the documents
			return nil, err
		}
		problem := d.problem(path, p)
		if p.Other != "" {
			other, otherPath := owner(docs, p.Other)
			problem.Want += sameValue(other, otherPath, d)
		}
		problems[d] = append(problems[d], problem)
	}
	var failed []error
	for _, d := range docs {
		if err := d.source().Error(problems[d], 0, rules.ErrInvalid); err != nil {
			failed = append(failed, err)
		}
	}
	if invalid.More > 0 {
		failed = append(failed, fmt.Errorf("%w: and %d more", rules.ErrInvalid, invalid.More))
	}
	return nil, errors.Join(failed...)
}

// owner returns the document of an element, given its path in the combined list of all documents, and the path in that
// document. It returns nil if the path is not that of a rule or a client.
func owner(docs []*Document, path string) (*Document, string) {
	ruleOffset, clientOffset := 0, 0
	for _, d := range docs {
		if local, ok := localPath(path, "rules[", ruleOffset, len(d.Rules)); ok {
			return d, local
		}
		if local, ok := localPath(path, "clients[", clientOffset, len(d.Clients)); ok {
			return d, local
		}
		ruleOffset += len(d.Rules)
		clientOffset += len(d.Clients)
	}
	return nil, ""
}

// sameValue returns the end of a message about document d. It says which line of the document other has the same value.
func sameValue(other *Document, path string, d *Document) string {
	line, _ := other.source().Locate(path)
	position := "line " + strconv.Itoa(line)
	if other != d {
		position = other.source().Name + ":" + strconv.Itoa(line)
	}
	return "; " + position + " has the same value"
}

// localPath converts a path in the combined list of all documents to a path in one document. In the combined list, the
// elements of that document have the indexes from offset to offset+count-1. ok is false for other elements.
func localPath(path, list string, offset, count int) (local string, ok bool) {
	rest, ok := strings.CutPrefix(path, list)
	if !ok {
		return "", false
	}
	number, rest, _ := strings.Cut(rest, "]")
	i, err := strconv.Atoi(number)
	if err != nil || i < offset || i >= offset+count {
		return "", false
	}
	return list + strconv.Itoa(i-offset) + "]" + rest, true
}

// locate adds positions to the problems that validation has found. It omits problems that may be consequences of
// problems that decoding has found.
func (d *Document) locate(invalid []rules.Problem, decoding []source.Problem) []source.Problem {
	var located []source.Problem
	for _, p := range invalid {
		if source.Follows(p.Path, decoding) {
			continue
		}
		problem := d.problem(p.Path, p)
		if p.Other != "" {
			problem.Want += sameValue(d, p.Other, d)
		}
		located = append(located, problem)
	}
	return located
}

// problem returns a problem with its position in the document. path is its location in this document alone.
func (d *Document) problem(path string, p rules.Problem) source.Problem {
	located := source.Problem{Path: path, Value: p.Value, Want: p.Want}
	located.Line, located.Column = d.source().Locate(path)
	return located
}

// source returns the file that the document was parsed from, or an empty file if it was not parsed.
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
