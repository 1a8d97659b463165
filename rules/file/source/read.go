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
	// MaxJSON is the maximum size of JSON in bytes.
	MaxJSON = 64 << 20
	// MaxYAML is the maximum size of YAML in bytes. YAML takes much longer to parse.
	MaxYAML = 16 << 20
	// MaxDepth is the maximum nesting of lists and mappings.
	MaxDepth = 64
	// MaxFields is the maximum number of fields of a mapping.
	MaxFields = 1000
	// MaxExpanded is the maximum number of nodes that all aliases together expand to.
	MaxExpanded = 1 << 20
)

// A File is a parsed text.
type File struct {
	Name string
	// Root is the content of the file, or nil if the file is empty.
	Root *Node

	data []byte
}

// ErrSyntax is wrapped by errors of Read.
var ErrSyntax = errors.New("invalid file")

// Read parses a file. The file is JSON if its name ends in .json. If the name has no known extension, the file is JSON
// if it is valid JSON. All other files are YAML. The error is an *Error and wraps ErrSyntax.
func Read(name string, data []byte) (*File, error) {
	f := &File{Name: name, data: bytes.TrimPrefix(data, []byte("\uFEFF"))}
	readsJSON := isJSON(name, f.data)
	kind, limit := "YAML", MaxYAML
	if readsJSON {
		kind, limit = "JSON", MaxJSON
	}
	var p *Problem
	if len(f.data) > limit {
		p = &Problem{Value: strconv.Itoa(len(f.data)) + " bytes", Want: "at most " + strconv.Itoa(limit) + " of " + kind}
	} else if !utf8.Valid(f.data) {
		p = f.badByte()
	} else if readsJSON {
		f.Root, p = readJSON(f.data)
	} else {
		f.Root, p = readYAML(f.data)
	}
	if p != nil {
		return nil, f.Error([]Problem{*p}, 0, ErrSyntax)
	}
	return f, nil
}

// badByte returns a problem at the first byte that is not UTF-8.
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

// line returns a line of the text.
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

// Locate returns the line and column of a path such as "rules[3].limits[0]", or of its longest prefix that exists. For
// a field with a list or a mapping, it returns the position of the name.
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
				return line, column // the element does not exist; [0] of a single value is the value itself
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

// longestField returns the field whose name is at the beginning of a path. Names may contain dots, so several names can
// fit; it returns the field with the longest one.
func (n *Node) longestField(path string) *Field {
	var best *Field
	for i := range n.Fields {
		field := &n.Fields[i]
		rest, ok := strings.CutPrefix(path, field.Name)
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') && (best == nil || len(field.Name) > len(best.Name)) {
			best = field
		}
	}
	return best
}

// fieldNames finds duplicate names.
type fieldNames struct{ seen map[string]struct{} }

// add records a name, and reports whether one of the fields already has it.
func (s *fieldNames) add(fields []Field, name string) (duplicate bool) {
	const maxCompared = 8 // comparing up to 8 names is faster than a map
	if len(fields) <= maxCompared {
		return slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name })
	}
	if s.seen == nil {
		s.seen = make(map[string]struct{}, 2*len(fields))
		for i := range fields {
			s.seen[fields[i].Name] = struct{}{}
		}
	}
	_, duplicate = s.seen[name]
	s.seen[name] = struct{}{}
	return duplicate
}

func duplicateName(name string, line, column int) *Problem {
	return &Problem{Value: strconv.Quote(name), Want: "each name once in a mapping", Line: line, Column: column}
}

func tooManyFields(line, column int) *Problem {
	return &Problem{Want: "at most " + strconv.Itoa(MaxFields) + " fields in a mapping", Line: line, Column: column}
}

func tooDeep(line, column int) *Problem {
	return &Problem{
		Want: "lists and mappings nested at most " + strconv.Itoa(MaxDepth) + " deep", Line: line, Column: column,
	}
}
