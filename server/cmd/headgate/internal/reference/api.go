package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// An openAPI has the fields of an OpenAPI document that reference pages use.
type openAPI struct {
	Info struct {
		Title       string
		Description string
	}
	Tags       []struct{ Name string }
	Paths      map[string]map[string]operation
	Components struct {
		Parameters map[string]parameter
		Schemas    map[string]*schema
	}
}

type operation struct {
	Tags        []string
	Summary     string
	Description string
	Parameters  []parameter
	RequestBody struct{ Content content }
	Responses   map[string]struct {
		Ref         string `json:"$ref"`
		Description string
		Content     content
	}
}

type parameter struct {
	Ref         string `json:"$ref"`
	Name        string
	In          string
	Required    bool
	Description string
}

// A content has the schemas of a body by media type.
type content map[string]struct{ Schema *schema }

// API returns the reference page of an API, from its OpenAPI document. It begins with the title and the text.
func API(document []byte, title, text string) ([]byte, error) {
	var d openAPI
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n%s\n\n%s\n", title, text, escape(d.Info.Description))
	for _, tag := range d.Tags {
		fmt.Fprintf(&b, "\n## Calls: %s\n", tag.Name)
		for _, call := range d.calls(tag.Name) {
			d.writeCall(&b, call)
		}
	}
	b.WriteString("\n## Bodies\n\nFields with \\* are required.\n")
	for _, name := range sortedKeys(d.Components.Schemas) {
		writeSchema(&b, name, d.Components.Schemas[name])
	}
	return b.Bytes(), nil
}

// A call is a path with an HTTP method.
type call struct{ method, path string }

// calls returns the calls with a tag, in the order of paths.
func (d *openAPI) calls(tag string) (list []call) {
	for _, path := range sortedKeys(d.Paths) {
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			if o, ok := d.Paths[path][method]; ok && slices.Contains(o.Tags, tag) {
				list = append(list, call{method, path})
			}
		}
	}
	return list
}

func (d *openAPI) writeCall(b *bytes.Buffer, c call) {
	o := d.Paths[c.path][c.method]
	fmt.Fprintf(b, "\n### %s %s\n\n%s.", strings.ToUpper(c.method), escape(c.path), escape(o.Summary))
	if o.Description != "" {
		b.WriteString(" " + escape(o.Description))
	}
	b.WriteString("\n\n")
	if len(o.Parameters) > 0 {
		b.WriteString("| parameter | in | meaning |\n|---|---|---|\n")
		for _, p := range o.Parameters {
			if p.Ref != "" {
				p = d.Components.Parameters[nameOf(p.Ref)]
			}
			fmt.Fprintf(b, "| `%s`%s | %s | %s |\n", p.Name, star(p.Required), p.In, escape(cell(p.Description)))
		}
		b.WriteByte('\n')
	}
	if text := o.RequestBody.Content.describe(); text != "" {
		fmt.Fprintf(b, "Body: %s\n\n", text)
	}
	var others []string
	for _, status := range sortedKeys(o.Responses) {
		r := o.Responses[status]
		if r.Ref != "" {
			others = append(others, status)
			continue
		}
		fmt.Fprintf(b, "- **%s**: %s\n", status, strings.TrimSpace(escape(r.Description)+" "+r.Content.describe()))
	}
	if len(others) > 0 {
		fmt.Fprintf(b, "- **%s**: an error, [Problem](#problem)\n", strings.Join(others, ", "))
	}
}

// describe returns the schemas of a body with their media types.
func (c content) describe() string {
	var list []string
	for _, media := range sortedKeys(c) {
		text := "`" + media + "`"
		if s := c[media].Schema; s != nil && (s.Ref != "" || s.Items != nil) {
			text += " " + s.kind()
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}
