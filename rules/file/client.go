package file

import (
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
)

// decodeClient decodes a client. In a file, the properties of a client are listed among its attributes.
func decodeClient(d *source.Decoder, n *source.Node, path string, dst *rules.Client) {
	d.Fields(n, path, dst)
	attributes := n.Field("attributes")
	if attributes == nil || attributes.Kind != source.Map {
		return
	}
	for i := range attributes.Fields { // d.Fields has already decoded the other fields, with decodeTests
		f := &attributes.Fields[i]
		if _, property, _ := rules.ParseClientAttribute(f.Name); property {
			decodeProperty(d, f, source.Join(source.Join(path, "attributes"), f.Name), dst)
		}
	}
}

func decodeProperty(d *source.Decoder, f *source.Field, path string, dst *rules.Client) {
	if f.Value.Kind != source.Scalar {
		d.Refuse(f.Value, path, f.Value.Kind.String(),
			"one value: it is a property, which describes the client and does not identify it")
		return
	}
	dst.Properties = append(dst.Properties, rules.Property{Name: f.Name, Value: f.Value.Text})
}

// decodeTests decodes the attributes that identify a client.
func decodeTests(d *source.Decoder, n *source.Node, path string, dst *[]rules.Test) {
	if n.Kind != source.Map {
		d.Refuse(n, path, n.Kind.String(), "a mapping, as in { user: acme, api_key: [k1, k2], plan: gold }")
		return
	}
	for i := range n.Fields {
		f := &n.Fields[i]
		fieldPath := source.Join(path, f.Name)
		switch a, property, err := rules.ParseClientAttribute(f.Name); {
		case err != nil:
			refuseName(d, f, fieldPath, err)
		case !property:
			decodeValues(d, f, fieldPath, a, dst)
		}
	}
}

// encodeClient encodes properties after the attributes that identify the client.
func encodeClient(c *source.Codec, v rules.Client) *source.Node {
	if len(v.Properties) == 0 {
		return c.Struct(v)
	}
	tests := v.Attributes
	v.Attributes = []rules.Test{{}} // not empty, because Struct omits empty fields
	n := c.Struct(v)
	attributes := n.Field("attributes")
	*attributes = *encodeTests(tests)
	for _, p := range v.Properties {
		attributes.Append(p.Name, source.Text(p.Value))
	}
	return n
}

func encodeTests(tests []rules.Test) *source.Node {
	n := &source.Node{Kind: source.Map}
	for _, t := range tests {
		if len(t.Values) == 1 {
			n.Append(t.Attribute.String(), source.Text(t.Values[0]))
			continue
		}
		list := &source.Node{Kind: source.List}
		for _, value := range t.Values {
			list.Items = append(list.Items, source.Text(value))
		}
		n.Append(t.Attribute.String(), list)
	}
	return n
}
