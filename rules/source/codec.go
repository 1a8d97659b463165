package source

import (
	"reflect"
	"strings"
)

// A Codec turns nodes into values and back. Structs are mappings by the tags of their fields: `field:"name"`. The tag
// `field:"name,not"` stands for a bool whose opposite is written. Fields without a tag are left alone. Fields with their
// zero value are not written.
type Codec struct {
	types map[reflect.Type]form
	// Explain says what an error of a registered function means. Default is the error as the value.
	Explain func(error) (value, want string)
}

// A form is how values of a type are written.
type form struct {
	decode func(d *Decoder, n *Node, path string, v reflect.Value)
	encode func(v reflect.Value) *Node
}

// NewCodec returns a codec for structs, slices, pointers, strings, bools and ints.
func NewCodec() *Codec { return &Codec{types: map[reflect.Type]form{}} }

// Words registers a type that is written as one scalar.
func Words[T any](c *Codec, parse func(string) (T, error), format func(T) string) {
	c.types[reflect.TypeFor[T]()] = form{
		decode: func(d *Decoder, n *Node, path string, v reflect.Value) {
			if n.Kind != Scalar {
				d.Refuse(n, path, n.Kind.String(), "a word")
				return
			}
			made, err := parse(n.Text)
			if err != nil {
				value, want := d.codec.explain(err)
				d.Refuse(n, path, value, want)
				return
			}
			v.Set(reflect.ValueOf(made))
		},
		encode: func(v reflect.Value) *Node { return Word(format(v.Interface().(T))) },
	}
}

// Nodes registers a type that is written in a way of its own. Without encode it can only be read.
func Nodes[T any](c *Codec, decode func(d *Decoder, n *Node, path string, into *T), encode func(T) *Node) {
	c.types[reflect.TypeFor[T]()] = form{
		decode: func(d *Decoder, n *Node, path string, v reflect.Value) { decode(d, n, path, v.Addr().Interface().(*T)) },
		encode: func(v reflect.Value) *Node { return encode(v.Interface().(T)) },
	}
}

func (c *Codec) explain(err error) (value, want string) {
	if c.Explain != nil {
		return c.Explain(err)
	}
	return err.Error(), "something else"
}

// tag returns the name of a field in a file, empty if it has none, and whether its opposite is written.
func tag(f reflect.StructField) (name string, not bool) {
	name, option, _ := strings.Cut(f.Tag.Get("field"), ",")
	return name, option == "not"
}

// Names returns the names of the fields of a struct as they are written, those of embedded structs included.
func Names(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		if name, _ := tag(f); name != "" {
			names = append(names, name)
		}
	}
	return names
}
