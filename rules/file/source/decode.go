package source

import (
	"cmp"
	"reflect"
	"strconv"
	"strings"
)

// A Decoder converts the nodes of one file to values, and collects problems.
type Decoder struct {
	codec    *Codec
	problems []Problem // decoding stops when there are more than MaxProblems
}

// Decode decodes a file into the value that v points to, and returns all problems. Invalid parts are left unchanged.
func (c *Codec) Decode(f *File, v any) []Problem {
	d := &Decoder{codec: c}
	root := f.Root
	if root == nil {
		root = &Node{Line: 1, Column: 1}
	}
	d.Decode(root, "", v)
	return d.problems
}

// Decode decodes a node into the value that v points to.
func (d *Decoder) Decode(n *Node, path string, v any) { d.decode(n, path, reflect.ValueOf(v).Elem()) }

// Refuse adds a problem with a node.
func (d *Decoder) Refuse(n *Node, path, value, want string) {
	d.problems = append(d.problems, Problem{Path: path, Value: value, Want: want, Line: n.Line, Column: n.Column})
}

func (d *Decoder) full() bool { return len(d.problems) > MaxProblems }

func (d *Decoder) decode(n *Node, path string, v reflect.Value) {
	if f, ok := d.codec.types[v.Type()]; ok {
		f.decode(d, n, path, v)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		pointer := reflect.New(v.Type().Elem())
		d.decode(n, path, pointer.Elem())
		v.Set(pointer)
	case reflect.Struct:
		d.Fields(n, path, v.Addr().Interface())
	case reflect.Slice:
		d.slice(n, path, v)
	case reflect.String:
		if n.Kind != Scalar {
			d.Refuse(n, path, n.Kind.String(), "a string")
			return
		}
		v.SetString(n.Text)
	case reflect.Bool:
		if n.Kind != Scalar || n.Quoted || n.Text != "true" && n.Text != "false" {
			d.Refuse(n, path, n.describe(), "true or false")
			return
		}
		v.SetBool(n.Text == "true")
	case reflect.Int, reflect.Int64:
		i, err := strconv.ParseInt(n.Text, 10, 64)
		if n.Kind != Scalar || n.Quoted || err != nil {
			d.Refuse(n, path, n.describe(), "a whole number")
			return
		}
		v.SetInt(i)
	default:
		panic("source: cannot decode " + v.Type().String())
	}
}

// slice decodes a list, or a single value as a list of one.
func (d *Decoder) slice(n *Node, path string, v reflect.Value) {
	if n.Kind == Null {
		d.Refuse(n, path, n.Kind.String(), "a list")
		return
	}
	if n.Kind != List {
		slice := reflect.MakeSlice(v.Type(), 1, 1)
		d.decode(n, path+"[0]", slice.Index(0))
		v.Set(slice)
		return
	}
	if len(n.Items) == 0 {
		v.SetZero() // as if the field were missing
		return
	}
	slice := reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items))
	for i, item := range n.Items {
		if d.full() {
			break
		}
		d.decode(item, path+"["+strconv.Itoa(i)+"]", slice.Index(i))
	}
	v.Set(slice)
}

// Fields decodes a mapping into the struct that v points to, field by field. It ignores a decoder registered for the
// type of the struct.
func (d *Decoder) Fields(n *Node, path string, v any) {
	target := reflect.ValueOf(v).Elem()
	if n.Kind != Map {
		d.Refuse(n, path, n.describe(), "a mapping with "+joinWords(Names(target.Type())))
		return
	}
	for i := range n.Fields {
		if d.full() {
			break
		}
		f := &n.Fields[i]
		fieldPath := Join(path, f.Name)
		field, negated := fieldOf(target, f.Name)
		if !field.IsValid() {
			d.problems = append(d.problems, Problem{
				Path: fieldPath, Value: "unknown field", Want: suggest(f.Name, Names(target.Type())),
				Line: f.Line, Column: f.Column,
			})
			continue
		}
		if f.Value.Kind == Null {
			d.Refuse(f.Value, fieldPath, "nothing", "a value, or no "+f.Name+" at all")
			continue
		}
		d.decode(f.Value, fieldPath, field)
		if negated {
			field.SetBool(!field.Bool())
		}
	}
}

// Join returns the path of a field.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// fieldOf returns the field of a struct by its name in files. negated reports whether the file has its negation.
func fieldOf(v reflect.Value, name string) (field reflect.Value, negated bool) {
	t := v.Type()
	for i := range t.NumField() {
		if fieldName, negated := tag(t.Field(i)); fieldName == name && name != "" {
			return v.Field(i), negated
		}
	}
	return reflect.Value{}, false
}

// describe describes a node in a message.
func (n *Node) describe() string {
	if n.Kind != Scalar {
		return n.Kind.String()
	}
	const maxBytes = 64
	text := n.Text
	if len(text) > maxBytes {
		text = text[:maxBytes] + "…"
	}
	return strconv.Quote(text)
}

// suggest returns the name that is closest to name, or all names if none is close.
func suggest(name string, names []string) string {
	return cmp.Or(Closest(name, names), joinWords(names))
}

// Closest returns the one of names that is most similar to name, or "" if all differ from name by more than two
// letters.
func Closest(name string, names []string) string {
	best, distance := "", 3
	for _, n := range names {
		if d := editDistance(name, n); d < distance {
			best, distance = n, d
		}
	}
	return best
}

// joinWords lists words: "a, b or c".
func joinWords(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// editDistance returns how many letters must be added, removed or replaced to turn a into b (the Levenshtein distance).
func editDistance(a, b string) int {
	const maxLength = 32
	if len(a) > maxLength || len(b) > maxLength {
		return maxLength
	}
	row := make([]int, len(b)+1) // distances between the first i letters of a and all prefixes of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
