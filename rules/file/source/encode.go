package source

import (
	"reflect"
	"strconv"
)

// Encode converts a value to a node.
func (c *Codec) Encode(v any) *Node { return c.encode(reflect.ValueOf(v)) }

func (c *Codec) encode(v reflect.Value) *Node {
	if f, ok := c.types[v.Type()]; ok {
		return f.encode(v)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return c.encode(v.Elem())
	case reflect.Struct:
		return c.Struct(v.Interface())
	case reflect.Slice:
		n := &Node{Kind: List}
		for i := range v.Len() {
			n.Items = append(n.Items, c.encode(v.Index(i)))
		}
		return n
	case reflect.String:
		return Text(v.String())
	case reflect.Bool:
		return Word(strconv.FormatBool(v.Bool()))
	case reflect.Int, reflect.Int64:
		return Word(strconv.FormatInt(v.Int(), 10))
	default:
		panic("source: cannot encode " + v.Type().String())
	}
}

// Struct converts a struct to a mapping. It ignores an encoder registered for the type of the struct.
func (c *Codec) Struct(v any) *Node {
	n := &Node{Kind: Map}
	from := reflect.ValueOf(v)
	for i := range from.NumField() {
		name, negated := tag(from.Type().Field(i))
		field := from.Field(i)
		switch {
		case name == "" || field.IsZero() || field.Kind() == reflect.Slice && field.Len() == 0:
		case negated:
			n.Append(name, Word(strconv.FormatBool(!field.Bool())))
		default:
			n.Append(name, c.encode(field))
		}
	}
	return n
}
