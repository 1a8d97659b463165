package file

import (
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
)

// newCodec returns a codec for rules and clients. It registers all types that are not written as a mapping of their
// fields.
func newCodec() *source.Codec {
	c := source.NewCodec()
	c.Explain = rules.Explain
	source.RegisterScalar(c, parseKey, headgate.Attribute.String)
	source.RegisterScalar(c, headgate.ParseLimit, headgate.Limit.String)
	source.RegisterScalar(c, rules.ParsePolicy, headgate.Policy.String)
	source.RegisterScalar(c, rules.ParseOwner, rules.Owner.String)
	source.RegisterScalar(c, rules.ParseFallback, rules.Fallback.String)
	source.RegisterScalar(c, rules.ParseConsistency, rules.Consistency.String)
	source.RegisterScalar(c, rules.ParseScope, rules.Scope.String)
	source.RegisterScalar(c, rules.ParsePartition, headgate.Partition.String)
	source.RegisterScalar(c, rules.ParseUnregistered, rules.Unregistered.String)
	source.RegisterScalar(c, rules.ParseStrictness, rules.Strictness.String)
	source.RegisterScalar(c, rules.ParseOnLimit, rules.OnLimit.String)
	source.RegisterScalar(c, rules.ParseDenials, rules.Denials.String)
	source.RegisterScalar(c, rules.ParseDuration, rules.FormatDuration)
	source.RegisterNode(c, decodeLimit, encodeLimit)
	source.RegisterNode(c, decodeCost, func(v rules.Cost) *source.Node { return encodeCost(c, v) })
	source.RegisterNode(c, decodeCondition, encodeCondition)
	source.RegisterNode(c, decodeTests, encodeTests)
	source.RegisterNode(c, decodeClient, func(v rules.Client) *source.Node { return encodeClient(c, v) })
	return c
}

// parseKey parses an attribute of a key. It also accepts attributes that only conditions can have, such as client.plan,
// because validation refuses them with a better message.
func parseKey(text string) (headgate.Attribute, error) {
	if a, err := rules.ParseTested(text); err == nil {
		return a, nil
	}
	return headgate.ParseAttribute(text)
}

// A namedLimit is a limit that is written as a mapping, { name: hourly, limit: 1000/h }.
type namedLimit struct {
	Name  string          `field:"name"`
	Limit *headgate.Limit `field:"limit"`
}

func decodeLimit(d *source.Decoder, n *source.Node, path string, dst *rules.Limit) {
	if n.Kind != source.Map {
		d.Decode(n, path, &dst.Limit)
		return
	}
	var named namedLimit
	d.Fields(n, path, &named)
	dst.Name = named.Name
	if named.Limit != nil {
		dst.Limit = *named.Limit
	} else if n.Field("limit") == nil {
		d.Refuse(n, path, "", "a limit, as in { name: hourly, limit: 1000/h }")
	}
}

func encodeLimit(l rules.Limit) *source.Node {
	if l.Name == "" {
		return source.Word(l.String())
	}
	n := &source.Node{Kind: source.Map}
	n.Append("name", source.Text(l.Name))
	n.Append("limit", source.Word(l.String()))
	return n
}

func decodeCost(d *source.Decoder, n *source.Node, path string, dst *rules.Cost) {
	if n.Kind == source.Map {
		d.Fields(n, path, dst)
		for _, name := range []string{"estimate", "min", "max"} {
			if f := n.Field(name); f != nil && f.Text == "0" {
				d.Refuse(f, source.Join(path, name), "0", "at least 1, or no "+name)
			}
		}
		for _, name := range []string{"header", "response_header"} {
			if f := n.Field(name); f != nil && f.Kind == source.Scalar && f.Text == "" {
				d.Refuse(f, source.Join(path, name), `""`, "the name of a header")
			}
		}
		if len(n.Fields) == 0 {
			d.Refuse(n, path, "an empty mapping", "a whole number, or a header, as in { header: X-Cost, max: 100 }")
		}
		return
	}
	if n.Kind == source.List || n.Quoted {
		d.Refuse(n, path, "", "a whole number, or a header, as in { header: X-Cost, max: 100 }")
		return
	}
	d.Decode(n, path, &dst.Units)
	if n.Text == "0" {
		d.Refuse(n, path, "0", "at least 1; with a cost of 0 the rule would limit nothing")
	}
}

func encodeCost(c *source.Codec, v rules.Cost) *source.Node {
	if v.Units != 0 {
		return source.Word(strconv.FormatInt(v.Units, 10))
	}
	return c.Struct(v)
}

// decodeCondition decodes a mapping of attributes and their values, and of any, all and not.
func decodeCondition(d *source.Decoder, n *source.Node, path string, dst *rules.Condition) {
	if n.Kind != source.Map {
		d.Refuse(n, path, n.Kind.String(),
			"a mapping, as in { host: api.example.com, path: /search/** }; for alternatives use any: [{…}, {…}]")
		return
	}
	for i := range n.Fields {
		f := &n.Fields[i]
		fieldPath := source.Join(path, f.Name)
		switch f.Name {
		case "any":
			decodeConditions(d, f.Value, fieldPath, &dst.Any)
		case "all":
			decodeConditions(d, f.Value, fieldPath, &dst.All)
		case "not":
			decodeConditions(d, f.Value, fieldPath, &dst.Not)
		default:
			decodeTest(d, f, fieldPath, &dst.Tests)
		}
	}
}

func decodeConditions(d *source.Decoder, n *source.Node, path string, dst *[]rules.Condition) {
	if n.Kind == source.List && len(n.Items) == 0 || n.Kind == source.Null || n.Kind == source.Scalar {
		d.Refuse(n, path, n.Kind.String(), "conditions, as in [{ path: /a }, { path: /b }]")
		return
	}
	d.Decode(n, path, dst)
}

func decodeTest(d *source.Decoder, f *source.Field, path string, dst *[]rules.Test) {
	a, err := rules.ParseTested(f.Name)
	if err != nil {
		refuseName(d, f, path, err)
		return
	}
	decodeValues(d, f, path, a, dst)
}

// refuseName refuses a field whose name is not an attribute. err is the error of parsing the name.
func refuseName(d *source.Decoder, f *source.Field, path string, err error) {
	_, want := rules.Explain(err)
	d.Refuse(&source.Node{Line: f.Line, Column: f.Column}, path, "unknown attribute", want)
}

func decodeValues(d *source.Decoder, f *source.Field, path string, a headgate.Attribute, dst *[]rules.Test) {
	for _, t := range *dst {
		if t.Attribute == a { // header.X-Plan and header.x-plan are the same
			d.Refuse(&source.Node{Line: f.Line, Column: f.Column}, path, "a second "+a.String(),
				"each attribute once, with a list if it has several values")
			return
		}
	}
	t := rules.Test{Attribute: a}
	if f.Value.Kind == source.Map || f.Value.Kind == source.Null {
		d.Refuse(f.Value, path, f.Value.Kind.String(), `a value, a list of values, or "*" for any`)
		return
	}
	d.Decode(f.Value, path, &t.Values)
	*dst = append(*dst, t)
}

func encodeCondition(c rules.Condition) *source.Node {
	n := encodeTests(c.Tests)
	for _, part := range []struct {
		name string
		list []rules.Condition
	}{{"any", c.Any}, {"all", c.All}, {"not", c.Not}} {
		if len(part.list) == 0 {
			continue
		}
		list := &source.Node{Kind: source.List}
		for _, inner := range part.list {
			list.Items = append(list.Items, encodeCondition(inner))
		}
		n.Append(part.name, list)
	}
	return n
}
