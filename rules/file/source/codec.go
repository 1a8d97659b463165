package source

import (
	"reflect"
	"strings"
)

// A Codec converts nodes to values and back. Structs are mappings by the tags of their fields: `field:"name"`. The tag
// `field:"name,not"` is for a bool whose negation is written. Fields without a tag are ignored. Fields with their zero
// value are not written.
type Codec struct {
	types map[reflect.Type]typeCodec
	// Explain describes the error of a registered function. By default the error itself is the value.
	Explain func(error) (value, want string)
}

// A typeCodec converts values of one type.
type typeCodec struct {
	decode func(d *Decoder, n *Node, path string, v reflect.Value)
	encode func(v reflect.Value) *Node
}

// NewCodec returns a codec for structs, slices, pointers, strings, bools and ints.
func NewCodec() *Codec { return &Codec{types: map[reflect.Type]typeCodec{}} }

// Words registers a type that is written as one scalar.
func Words[T any](c *Codec, parse func(string) (T, error), format func(T) string) {
	c.types[reflect.TypeFor[T]()] = typeCodec{
		decode: func(d *Decoder, n *Node, path string, v reflect.Value) {
			if n.Kind != Scalar {
				d.Refuse(n, path, n.Kind.String(), "one value")
				return
			}
			value, err := parse(n.Text)
			if err != nil {
				value, want := d.codec.explain(err)
				d.Refuse(n, path, value, want)
				return
			}
			v.Set(reflect.ValueOf(value))
		},
		encode: func(v reflect.Value) *Node { return Word(format(v.Interface().(T))) },
	}
}

// Nodes registers a type with its own notation. Without encode it can only be read.
func Nodes[T any](c *Codec, decode func(d *Decoder, n *Node, path string, into *T), encode func(T) *Node) {
	c.types[reflect.TypeFor[T]()] = typeCodec{
		decode: func(d *Decoder, n *Node, path string, v reflect.Value) { decode(d, n, path, v.Addr().Interface().(*T)) },
		encode: func(v reflect.Value) *Node { return encode(v.Interface().(T)) },
	}
}

func (c *Codec) explain(err error) (value, want string) {
	if c.Explain != nil {
		return c.Explain(err)
	}
	return err.Error(), "a valid value"
}

// tag returns the name of a field in a file, empty if it has none, and whether its negation is written.
func tag(f reflect.StructField) (name string, not bool) {
	name, option, _ := strings.Cut(f.Tag.Get("field"), ",")
	return name, option == "not"
}

// Names returns the names of the fields of a struct in a file, including those of embedded structs.
func Names(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		if name, _ := tag(f); name != "" {
			names = append(names, name)
		}
	}
	return names
}
