package call

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control"
)

// decodeJSON decodes a JSON object into the struct that v points to. The struct has `field` tags. decodeJSON refuses
// unknown fields, because ignoring a misspelt field could do harm. A null counts as a missing field. The error is a
// *source.Error.
func decodeJSON(data []byte, v any) error {
	f, err := source.Read(JSON, data)
	if err != nil {
		return err
	}
	if f.Root != nil {
		f.Root.Fields = slices.DeleteFunc(f.Root.Fields, func(field source.Field) bool {
			return field.Value.Kind == source.Null
		})
	}
	problems := jsonCodec().Decode(f, v) // all of them, so 0 more
	return f.Error(problems, 0, nil)
}

// jsonCodec returns a codec with strict types, which only decodes. The codec of rules files also accepts a number for a
// string, and a string for a list.
var jsonCodec = sync.OnceValue(func() *source.Codec {
	c := source.NewCodec()
	source.RegisterNode(c, control.DecodeTime, nil)
	source.RegisterNode(c, decodeText, nil)
	source.RegisterNode(c, func(d *source.Decoder, n *source.Node, path string, into *[]string) {
		if n.Kind != source.List {
			d.Refuse(n, path, n.Kind.String(), "a list")
			return
		}
		for _, item := range n.Items {
			var text string
			decodeText(d, item, path, &text)
			*into = append(*into, text)
		}
	}, nil)
	source.RegisterNode(c, func(d *source.Decoder, n *source.Node, path string, into *map[string]string) {
		if n.Kind != source.Map {
			d.Refuse(n, path, n.Kind.String(), "an object")
			return
		}
		*into = make(map[string]string, len(n.Fields))
		for _, field := range n.Fields {
			var text string
			decodeText(d, field.Value, source.Join(path, field.Name), &text)
			(*into)[field.Name] = text
		}
	}, nil)
	source.RegisterNode(c, func(_ *source.Decoder, n *source.Node, _ string, into *json.RawMessage) {
		*into = source.JSON(n)
	}, nil)
	return c
})

func decodeText(d *source.Decoder, n *source.Node, path string, into *string) {
	if n.Kind != source.Scalar || !n.Quoted {
		d.Refuse(n, path, n.Kind.String(), "a string")
		return
	}
	*into = n.Text
}
