package source

import (
	"reflect"
	"strings"
)

// A Codec converts nodes to values and back. A struct is a mapping in the file. The tag `field:"name"` of a field is
// its name in the file. With the tag `field:"name,not"`, the file has the negation of a bool. Fields without a tag are
// ignored, and fields with their zero value are not encoded.
type Codec struct {
	types map[reflect.Type]typeCodec
	// Explain returns the invalid value and a description of valid values from an error of a parse function that was
	// passed to RegisterScalar. By default, the value is the text of the error.
	Explain func(error) (value, want string)
}

// A typeCodec converts values of one type.
type typeCodec struct {
	decode func(d *Decoder, n *Node, path string, v reflect.Value)
	encode func(v reflect.Value) *Node
}

// NewCodec returns a codec for structs, slices, pointers, strings, bools and ints.
func NewCodec() *Codec { return &Codec{types: map[reflect.Type]typeCodec{}} }

// RegisterScalar registers a type whose values are scalars in files.
func RegisterScalar[T any](c *Codec, parse func(string) (T, error), format func(T) string) {
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

// RegisterNode registers a type with its own notation. If encode is nil, values can only be decoded.
func RegisterNode[T any](c *Codec, decode func(d *Decoder, n *Node, path string, into *T), encode func(T) *Node) {
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

// tag returns the name that a field has in files, or "" if it has none. negated reports whether files have its
// negation.
func tag(f reflect.StructField) (name string, negated bool) {
	name, option, _ := strings.Cut(f.Tag.Get("field"), ",")
	return name, option == "not"
}

// Names returns the names that the fields of a struct have in files.
func Names(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		if name, _ := tag(f); name != "" {
			names = append(names, name)
		}
	}
	return names
}
