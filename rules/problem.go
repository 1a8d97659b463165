package rules

import (
	"errors"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
)

// ErrInvalid is wrapped by all errors about rules and clients.
var ErrInvalid = errors.New("invalid rules")

// A Problem is one invalid part of rules or clients.
type Problem struct {
	// Path is the location of the part: "rules[3].limits[0]".
	Path string
	// Value is the invalid value, shortened if it is long. It is empty if a value is missing.
	Value string
	// Want describes a valid value.
	Want string
	// Other is the path of another element with the same value, if the value should be unique.
	Other string
}

func (p Problem) String() string {
	text := p.Path
	if p.Value != "" {
		text += ": " + p.Value
	}
	text += ": want " + p.Want
	if p.Other != "" {
		text += "; " + p.Other + " has the same value"
	}
	return text
}

// An Error lists the problems of rules and clients. It wraps ErrInvalid.
type Error struct {
	// Problems are the first MaxProblems problems, in the order of the rules.
	Problems []Problem
	// More is the number of problems that are not in the list.
	More int
}

// MaxProblems is the maximum number of problems that an Error lists.
const MaxProblems = 100

func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems)+1)
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	if e.More > 0 {
		lines = append(lines, "and "+strconv.Itoa(e.More)+" more")
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns ErrInvalid.
func (e *Error) Unwrap() error { return ErrInvalid }

// A parseError is the error of a function that parses the text of one field.
type parseError struct {
	Problem // its Path is the name of the field
}

func (e *parseError) Error() string { return e.String() }
func (e *parseError) Unwrap() error { return ErrInvalid }

func newParseError(field, value, want string) error {
	return &parseError{Problem{Path: field, Value: Quote(value), Want: want}}
}

// Explain returns the invalid value and a description of valid values from an error. The error comes from a Parse
// function of this package or of package headgate.
func Explain(err error) (value, want string) {
	var parse *parseError
	var input *headgate.InputError
	switch {
	case errors.As(err, &parse):
		return parse.Value, parse.Want
	case errors.As(err, &input):
		return input.Field + " " + input.Value, input.Want
	default:
		return err.Error(), "a valid value"
	}
}

// Quote returns a quoted value for a message, shortened if it is long.
func Quote(s string) string {
	const maxBytes = 64
	if len(s) > maxBytes {
		return strconv.Quote(s[:maxBytes]) + "… (" + strconv.Itoa(len(s)) + " bytes)"
	}
	return strconv.Quote(s)
}

// problems collects problems for an Error.
type problems struct {
	list []Problem
	more int // the number of problems that did not fit into list
}

// add adds the problem that a location has an invalid value. value may be empty. want says what is valid, as the end of
// a sentence that begins with "want".
func (p *problems) add(at *location, value, want string) {
	if len(p.list) == MaxProblems {
		p.more++
		return
	}
	p.list = append(p.list, Problem{Path: at.String(), Value: value, Want: want})
}

// addDuplicate adds the problem that two locations have the same value, although it should be unique.
func (p *problems) addDuplicate(at, other *location, value, want string) {
	if p.add(at, value, want); p.more == 0 {
		p.list[len(p.list)-1].Other = other.String()
	}
}

func (p *problems) count() int { return len(p.list) + p.more }

func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	return &Error{Problems: p.list, More: p.more}
}

// A location is a path in the rules. It is formatted only if there is a problem.
type location struct {
	parent *location
	name   string // of a field, or empty for an element
	index  int
}

func (p *location) field(name string) *location { return &location{parent: p, name: name} }

func (p *location) element(index int) *location { return &location{parent: p, index: index} }

func (p *location) String() string { return string(p.append(nil)) }

// append appends the path to a buffer. Only copies of the names leave this function, so the compiler can keep locations
// on the stack.
func (p *location) append(path []byte) []byte {
	if p == nil {
		return path
	}
	path = p.parent.append(path)
	if p.name == "" {
		return append(strconv.AppendInt(append(path, '['), int64(p.index), 10), ']')
	}
	if p.parent != nil {
		path = append(path, '.')
	}
	return append(path, p.name...)
}
