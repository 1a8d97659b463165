package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// ruleObjects are the objects of a rules file. name is the key of the object in $defs of the schema, and title is the
// heading of its section on the page.
var ruleObjects = []struct{ name, title string }{
	{"rule", "Rule"},
	{"condition", "Condition"},
	{"namedLimit", "Limit"},
	{"cost", "Cost"},
	{"override", "Override"},
	{"penalty", "Penalty"},
	{"client", "Client"},
	{"clientRule", "Rule of a client"},
}

// Rules returns the reference page about rules files, from their JSON Schema.
func Rules(document []byte) ([]byte, error) {
	var s schema
	if err := json.Unmarshal(document, &s); err != nil {
		return nil, fmt.Errorf("schema of rules: %w", err)
	}
	var b bytes.Buffer
	b.WriteString("# Fields of rules files\n\nEvery field of a rules file. [Rules](../rules.md) explains them with examples, and " +
		"`headgate rules lint FILE` checks a file.\nFields with \\* are required. A list of one value may be written without brackets.\n")
	b.WriteString("\n## File\n\n| field | values | meaning |\n|---|---|---|\n")
	writeRuleFields(&b, &s, s.Defs)
	for _, o := range ruleObjects {
		def := s.Defs[o.name]
		fmt.Fprintf(&b, "\n## %s\n", o.title)
		if def.Description != "" {
			b.WriteString("\n" + escape(def.Description) + "\n")
		}
		b.WriteString("\n| field | values | meaning |\n|---|---|---|\n")
		if len(def.Properties) == 0 { // the cost is a number or an object
			def = def.OneOf[len(def.OneOf)-1]
		}
		writeRuleFields(&b, def, s.Defs)
	}
	return b.Bytes(), nil
}

// writeRuleFields writes a row for each field of an object.
func writeRuleFields(b *bytes.Buffer, s *schema, defs map[string]*schema) {
	for _, name := range s.order {
		f := s.Properties[name]
		fmt.Fprintf(b, "| `%s`%s | %s | %s |\n", name, star(s.requires(name)), ruleValues(f, defs), f.meaning())
	}
	for _, expression := range sortedKeys(s.PatternProperties) {
		f := s.PatternProperties[expression]
		// "^(header|cookie)\..+$" becomes "header.NAME`, `cookie.NAME".
		prefixes, _, _ := strings.Cut(strings.Trim(expression, "^("), `\.`)
		names := strings.ReplaceAll(strings.TrimSuffix(prefixes, ")"), "|", ".NAME`, `") + ".NAME"
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", names, ruleValues(f, defs), f.meaning())
	}
}

// ruleValues returns the values that a field can have.
func ruleValues(s *schema, defs map[string]*schema) string {
	if s.Ref == "" {
		switch {
		case len(s.OneOf) > 0:
			return ruleValues(s.OneOf[0], defs) + ", or a list"
		case len(s.AnyOf) > 0: // only attributes have anyOf: names from a list, or texts such as header.NAME
			return "an attribute"
		}
		return s.kind()
	}
	name := nameOf(s.Ref)
	for _, o := range ruleObjects {
		if o.name == name && o.name != "namedLimit" { // fields refer to "limits", which has its own text below
			text := "[" + strings.ToLower(o.title) + "](#" + strings.ReplaceAll(strings.ToLower(o.title), " ", "-") + ")"
			if name == "cost" {
				return "integer, or " + text
			}
			return text
		}
	}
	switch name {
	case "limits":
		return "a limit such as `10/s burst 20`, a [named limit](#limit), or a list"
	case "limit":
		return "a limit such as `10/s burst 20`"
	case "values":
		return "a pattern, or a list"
	case "conditions":
		return "a [condition](#condition), or a list"
	case "attributes":
		return "names and values"
	case "duration":
		return "a duration such as `30s`"
	}
	if name == "attribute" { // its schema has several types
		return "an attribute"
	}
	return defs[name].kind()
}
