package source

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a file.
const (
	// MaxJSON is the most bytes of JSON.
	MaxJSON = 64 << 20
	// MaxYAML is the most bytes of YAML, which takes much longer to read.
	MaxYAML = 16 << 20
	// MaxDepth is how deep lists and mappings may be nested.
	MaxDepth = 64
	// MaxFields is how many fields a mapping may have.
	MaxFields = 1000
	// MaxUnfolded is how many nodes aliases may stand for, all together.
	MaxUnfolded = 1 << 20
)

// A File is a text that was read.
type File struct {
	Name string
	// Root is what it holds, nil if it is empty.
	Root *Node

	data  []byte
	arena *arena // of the nodes, nil if they are by themselves
}

// Release lets the next file have the memory of this one's nodes. Neither these nor Locate and Error may be used any more; what was
// decoded may. It is for who reads many small files.
func (f *File) Release() {
	if f.arena != nil {
		f.Root, f.data = nil, nil
		f.arena.release()
		f.arena = nil
	}
}

// ErrSyntax is wrapped by errors of Read.
var ErrSyntax = errors.New("not a file that can be read")

// Read reads a file. It is JSON if its name ends in .json, or has no ending and is JSON; YAML otherwise. The error is an
// *Error and wraps ErrSyntax.
func Read(name string, data []byte) (*File, error) {
	f := &File{Name: name, data: bytes.TrimPrefix(data, []byte("\uFEFF"))}
	json := isJSON(name, f.data)
	kind, most := "YAML", MaxYAML
	if json {
		kind, most = "JSON", MaxJSON
	}
	var p *Problem
	if len(f.data) > most {
		p = &Problem{Value: strconv.Itoa(len(f.data)) + " bytes", Want: "at most " + strconv.Itoa(most) + " of " + kind}
	} else if !utf8.Valid(f.data) {
		p = f.badByte()
	} else if json {
		f.arena = arenas.Get().(*arena)
		f.Root, p = readJSON(f.data, f.arena)
	} else {
		f.Root, p = readYAML(f.data)
	}
	if p != nil {
		err := f.Error([]Problem{*p}, 0, ErrSyntax)
		f.Release()
		return nil, err
	}
	return f, nil
}

func (f *File) badByte() *Problem {
	at := 0
	for at < len(f.data) {
		r, size := utf8.DecodeRune(f.data[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	line, column := position(f.data, at)
	return &Problem{Value: "a byte that is not UTF-8", Want: "a file in UTF-8", Line: line, Column: column}
}

// position returns the line and column of an offset.
func position(data []byte, offset int) (line, column int) {
	offset = min(offset, len(data))
	begin := bytes.LastIndexByte(data[:offset], '\n') + 1
	return bytes.Count(data[:begin], []byte{'\n'}) + 1, utf8.RuneCount(data[begin:offset]) + 1
}

// line returns a line of the text, which is part of it.
func (f *File) line(n int) []byte {
	rest := f.data
	for ; n > 1; n-- {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			return nil
		}
		rest = rest[i+1:]
	}
	if i := bytes.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	return bytes.TrimSuffix(rest, []byte{'\r'})
}

// Locate returns where a path such as "rules[3].limits[0]" leads: the line and column of the last of its parts that is
// there, of its name if it is the value of a field that is no scalar.
func (f *File) Locate(path string) (line, column int) {
	n := f.Root
	if n == nil {
		return 0, 0
	}
	line, column = n.Line, n.Column
	for path != "" && n != nil {
		switch path[0] {
		case '[':
			var item string
			item, path, _ = strings.Cut(path[1:], "]")
			i, err := strconv.Atoi(item)
			if n.Kind == List && err == nil && i >= 0 && i < len(n.Items) {
				n = n.Items[i]
			} else if i != 0 || n.Kind == List {
				return line, column // a single value may stand for a list of one
			}
			line, column = n.Line, n.Column
		default:
			path = strings.TrimPrefix(path, ".")
			field := n.longestField(path)
			if field == nil {
				return line, column
			}
			path = path[len(field.Name):]
			n, line, column = field.Value, field.Line, field.Column
			if n.Kind == Scalar {
				line, column = n.Line, n.Column
			}
		}
	}
	return line, column
}

// longestField returns the field that a path begins with. Names can have dots.
func (n *Node) longestField(path string) *Field {
	var found *Field
	for i := range n.Fields {
		field := &n.Fields[i]
		rest, ok := strings.CutPrefix(path, field.Name)
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') && (found == nil || len(field.Name) > len(found.Name)) {
			found = field
		}
	}
	return found
}

// fieldNames finds names that stand twice.
type fieldNames struct{ seen map[string]struct{} }

func (s *fieldNames) add(fields []Field, name string) (twice bool) {
	const few = 8
	if len(fields) <= few {
		return slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name })
	}
	if s.seen == nil {
		s.seen = make(map[string]struct{}, 2*len(fields))
		for i := range fields {
			s.seen[fields[i].Name] = struct{}{}
		}
	}
	_, twice = s.seen[name]
	s.seen[name] = struct{}{}
	return twice
}

func twice(name string, line, column int) *Problem {
	return &Problem{Value: strconv.Quote(name), Want: "each name once in a mapping", Line: line, Column: column}
}

func tooManyFields(line, column int) *Problem {
	return &Problem{Want: "at most " + strconv.Itoa(MaxFields) + " fields in a mapping", Line: line, Column: column}
}

func tooDeep(line, column int) *Problem {
	return &Problem{Want: "lists and mappings nested at most " + strconv.Itoa(MaxDepth) + " deep", Line: line, Column: column}
}
