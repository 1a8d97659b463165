package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A schema has the fields of a JSON Schema that reference pages use.
type schema struct {
	Ref         string `json:"$ref"`
	Description string
	Type        types
	Enum        []any
	Default     any
	Required    []string
	Properties  map[string]*schema
	Items       *schema
	OneOf       []*schema
	AnyOf       []*schema
	// PatternProperties are the fields whose names match an expression.
	PatternProperties map[string]*schema
	Defs              map[string]*schema `json:"$defs"`

	// order has the names of Properties in the order of the document.
	order []string
}

// types are the types of a value: in JSON, a string or a list of strings.
type types []string

func (t *types) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = types{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// UnmarshalJSON also sets order, so that pages have the properties in the order of the document.
func (s *schema) UnmarshalJSON(data []byte) error {
	type plain schema
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	var raw struct{ Properties json.RawMessage }
	if err := json.Unmarshal(data, &raw); err != nil || raw.Properties == nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw.Properties))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		s.order = append(s.order, fmt.Sprint(name))
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
	}
	return nil
}

// writeSchema writes a section about an object, with a table of its fields.
func writeSchema(b *bytes.Buffer, name string, s *schema) {
	fmt.Fprintf(b, "\n### %s\n", name)
	if s.Description != "" {
		b.WriteString("\n" + escape(s.Description) + "\n")
	}
	if len(s.Properties) == 0 {
		if s.Description == "" {
			b.WriteString("\n" + upperFirst(s.kind()) + ".\n")
		}
		return
	}
	b.WriteString("\n| field | type | meaning |\n|---|---|---|\n")
	writeFields(b, "", s)
}

// writeFields writes a row for each field and, recursively, for the fields of nested objects.
func writeFields(b *bytes.Buffer, prefix string, s *schema) {
	for _, name := range s.order {
		f := s.Properties[name]
		fmt.Fprintf(b, "| `%s%s`%s | %s | %s |\n", prefix, name, star(s.requires(name)), f.kind(), f.meaning())
		below, list := f, ""
		if f.Items != nil {
			below, list = f.Items, "[]"
		}
		if below.Ref == "" {
			writeFields(b, prefix+name+list+".", below)
		}
	}
}

// requires reports whether a field is required.
func (s *schema) requires(field string) bool { return slices.Contains(s.Required, field) }

// meaning returns the description of a value, with its default.
func (s *schema) meaning() string {
	text := s.Description
	if s.Default != nil && !strings.Contains(text, "Default") {
		text = strings.TrimSpace(fmt.Sprintf("%s Default: %v.", text, s.Default))
	}
	return escape(cell(text))
}

// kind returns the type of a value in words.
func (s *schema) kind() string {
	switch {
	case s.Ref != "":
		return link(s.Ref)
	case len(s.OneOf) > 0:
		var list []string
		for _, one := range s.OneOf {
			if kind := one.kind(); !slices.Contains(list, kind) {
				list = append(list, kind)
			}
		}
		return strings.Join(list, ", or ")
	case len(s.Enum) > 0:
		var list []string
		for _, value := range s.Enum {
			list = append(list, fmt.Sprintf("`%v`", value))
		}
		return strings.Join(list, ", ")
	case s.Items != nil:
		return "list of " + s.Items.kind()
	}
	if len(s.Type) == 0 {
		return "any value"
	}
	return strings.Join(s.Type, ", or ")
}

// link returns a link to the section of a schema.
func link(ref string) string {
	name := nameOf(ref)
	if owner, _, ok := strings.Cut(ref, "/properties/"); ok { // the field of another object
		return "as in [" + nameOf(owner) + "](#" + strings.ToLower(nameOf(owner)) + ")"
	}
	return "[" + name + "](#" + strings.ToLower(name) + ")"
}

func nameOf(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

func star(required bool) string {
	if required {
		return " \\*"
	}
	return ""
}

func upperFirst(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
