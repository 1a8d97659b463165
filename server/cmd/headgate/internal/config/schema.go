package config

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
)

// schemaID is the URL at which the schema is published.
const schemaID = "https://raw.githubusercontent.com/headgate/headgate/main/docs/config.schema.json"

// Schema returns a JSON Schema of the configuration file, for editors. It is generated from the types of this package.
func Schema() []byte {
	root := structSchema(reflect.TypeFor[Config]())
	root = append([]member{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", schemaID},
		{"title", "Headgate configuration"},
	}, root...)
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // strings, numbers and lists always marshal
	}
	return append(text, '\n')
}

// A member is a name and a value of a JSON object. Members keep their order.
type member struct {
	name  string
	value any
}

type members []member

// MarshalJSON writes the members in their order.
func (m members) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, f := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(f.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

// structSchema returns the schema of a struct.
func structSchema(t reflect.Type) members {
	var properties members
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("field"), ",")
		if name == "" {
			continue
		}
		property := members{{"description", f.Tag.Get("doc")}}
		property = append(property, typeSchema(f.Type)...)
		properties = append(properties, member{name, property})
	}
	return members{{"type", "object"}, {"additionalProperties", false}, {"properties", properties}}
}

// Regular expressions of durations and sizes.
const (
	durationPattern = "^([0-9]+(d|h|m|s|ms|us|µs|μs))+$"
	sizePattern     = "^[0-9]+ *(KiB|MiB|GiB|TiB|kB|KB|MB|GB|TB|B)?$"
)

// typeSchema returns the schema of the values of a type.
func typeSchema(t reflect.Type) members {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return members{{"type", "string"}, {"pattern", durationPattern}}
	case reflect.TypeFor[DurationOrOff]():
		return members{{"type", "string"}, {"pattern", strings.Replace(durationPattern, "^", "^off$|^", 1)}}
	case reflect.TypeFor[Size]():
		return members{
			{"type", []string{"integer", "string"}},
			{"minimum", 1},
			{"pattern", strings.Replace(sizePattern, "^", "^off$|^", 1)},
		}
	case reflect.TypeFor[CountOrOff]():
		return members{{"type", []string{"integer", "string"}}, {"minimum", 0}, {"pattern", "^off$"}}
	case reflect.TypeFor[netip.Prefix]():
		return members{{"type", "string"}}
	case reflect.TypeFor[identity.UserSource]():
		return members{{"enum", userSources.words()}}
	case reflect.TypeFor[identity.EncodedSlash]():
		return members{{"enum", encodedSlashes.words()}}
	case reflect.TypeFor[identity.Parameters]():
		return members{{"enum", pathParameters.words()}}
	case reflect.TypeFor[identity.Repeated]():
		return members{{"enum", repeatedValues.words()}}
	case reflect.TypeFor[ResetFormat]():
		return members{{"enum", resetFormats.words()}}
	case reflect.TypeFor[NameMode]():
		return members{{"enum", nameModes.words()}}
	case reflect.TypeFor[TLSVersion]():
		return members{{"enum", []any{"1.2", "1.3", 1.2, 1.3}}} // YAML reads an unquoted version as a number
	case reflect.TypeFor[headgate.Policy]():
		return members{{"enum", []string{headgate.Open.String(), headgate.Closed.String(), headgate.Local.String()}}}
	case reflect.TypeFor[Upstream]():
		return members{{"oneOf", []members{{{"type", "string"}}, structSchema(t)}}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeSchema(t.Elem())
	case reflect.Struct:
		return structSchema(t)
	case reflect.Slice:
		item := typeSchema(t.Elem())
		return members{{"oneOf", []members{{{"type", "array"}, {"items", item}}, item}}}
	case reflect.String:
		return members{{"type", "string"}}
	case reflect.Bool:
		return members{{"type", "boolean"}}
	default:
		return members{{"type", "integer"}}
	}
}
