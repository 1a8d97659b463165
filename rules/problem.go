package rules

import (
	"errors"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
)

// ErrInvalid is wrapped by all complaints about rules and clients.
var ErrInvalid = errors.New("invalid rules")

// A Problem is one thing that is wrong with rules or clients.
type Problem struct {
	// Path is where: "rules[3].limits[0]".
	Path string
	// Value is what was given, shortened if it is long; empty if nothing was.
	Value string
	// Want is what would be right.
	Want string
	// Other is the path of something else that has the same already, empty if that is not what is wrong.
	Other string
}

func (p Problem) String() string {
	text := p.Path
	if p.Value != "" {
		text += ": " + p.Value
	}
	text += ": want " + p.Want
	if p.Other != "" {
		text += "; " + p.Other + " has this one"
	}
	return text
}

// An Error is everything that is wrong, as far as it was counted. It wraps ErrInvalid.
type Error struct {
	// Problems are the first MaxProblems, in the order of the rules.
	Problems []Problem
	// More is how many others there are.
	More int
}

// MaxProblems is how many problems are reported at once.
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

// A complaint is what a parser says of a text.
type complaint struct {
	Problem // Path is the field
}

func (c *complaint) Error() string { return c.String() }
func (c *complaint) Unwrap() error { return ErrInvalid }

func bad(field, value, want string) error {
	return &complaint{Problem{Path: field, Value: Quote(value), Want: want}}
}

// Explain returns what an error of a parser, here or of package headgate, says is wrong with a value and what would be
// right.
func Explain(err error) (value, want string) {
	var c *complaint
	var input *headgate.InputError
	switch {
	case errors.As(err, &c):
		return c.Value, c.Want
	case errors.As(err, &input):
		return input.Field + " " + input.Value, input.Want
	default:
		return err.Error(), "something else"
	}
}

// Quote shows a value in a message, shortened if it is long.
func Quote(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.Quote(s[:most]) + "… (" + strconv.Itoa(len(s)) + " bytes)"
	}
	return strconv.Quote(s)
}

// problems gathers what is wrong.
type problems struct {
	list []Problem
	more int
}

func (p *problems) add(at *place, value, want string) {
	if len(p.list) == MaxProblems {
		p.more++
		return
	}
	p.list = append(p.list, Problem{Path: at.String(), Value: value, Want: want})
}

// addTwice is add for what something else has already.
func (p *problems) addTwice(at, other *place, value, want string) {
	if p.add(at, value, want); p.more == 0 {
		p.list[len(p.list)-1].Other = other.String()
	}
}

func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	return &Error{Problems: p.list, More: p.more}
}

// A place is where validation is, written out only if something is wrong there.
type place struct {
	above *place
	name  string // of a field, or empty for an element
	index int
}

func (p *place) field(name string) *place { return &place{above: p, name: name} }

func (p *place) element(index int) *place { return &place{above: p, index: index} }

func (p *place) String() string { return string(p.append(nil)) }

// append adds the path. It copies the names, so that the compiler sees that nothing keeps a place and leaves all of them on the stack.
func (p *place) append(path []byte) []byte {
	if p == nil {
		return path
	}
	path = p.above.append(path)
	if p.name == "" {
		return append(strconv.AppendInt(append(path, '['), int64(p.index), 10), ']')
	}
	if p.above != nil {
		path = append(path, '.')
	}
	return append(path, p.name...)
}
