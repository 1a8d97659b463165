// Package strictjson decodes JSON of people: it reports all unknown fields and invalid values with their positions.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
)

// Decode decodes a JSON object into a pointer to a struct. It ignores unknown fields. The error is a *source.Error.
func Decode(data []byte, v any) error { return decode(data, v, false) }

// DecodeKnown is like Decode, and refuses unknown fields: a misspelt field must not be a missing one.
func DecodeKnown(data []byte, v any) error { return decode(data, v, true) }

func decode(data []byte, v any, strict bool) error {
	f, err := source.Read("body.json", data) // finds duplicate fields, and knows the position of errors
	if err != nil {
		return err
	}
	var problems []source.Problem
	d := json.NewDecoder(bytes.NewReader(data))
	if strict {
		d.DisallowUnknownFields()
		problems = unknownFields(f, fieldNames(v))
	}
	if len(problems) == 0 {
		problems = invalidValues(f.Root, reflect.TypeOf(v), "")
	}
	if len(problems) == 0 {
		if err := d.Decode(v); err != nil {
			problems = []source.Problem{decodeProblem(err)}
		}
	}
	if len(problems) > 0 {
		return &source.Error{Problems: problems}
	}
	return nil
}

// decodeProblem returns the problem of an error of json.Decoder.
func decodeProblem(err error) source.Problem {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return source.Problem{Path: mismatch.Field, Value: "a " + mismatch.Value, Want: typeName(mismatch.Type)}
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok { // of an inner object
		path, _ := strconv.Unquote(name)
		return source.Problem{Path: path, Value: "unknown field", Want: "a field that there is; see /openapi.json"}
	}
	return source.Problem{Value: err.Error(), Want: "what /openapi.json describes"}
}

// fieldNames returns the names in JSON of the fields of a struct, given a pointer to it.
func fieldNames(v any) (names []string) {
	t := reflect.TypeOf(v).Elem()
	for i := range t.NumField() {
		names = append(names, fieldName(t.Field(i)))
	}
	return names
}

func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// unknownFields returns a problem for each field of a file that is not known.
func unknownFields(f *source.File, known []string) (list []source.Problem) {
	if f.Root == nil || f.Root.Kind != source.Map {
		return nil
	}
	for _, field := range f.Root.Fields {
		if !slices.Contains(known, field.Name) && len(list) < rules.MaxProblems {
			list = append(list, source.Problem{
				Path: field.Name, Value: "unknown field", Want: "one of " + strings.Join(known, ", "),
				Line: field.Line, Column: field.Column,
			})
		}
	}
	return list
}

// invalidValues returns a problem for each invalid time, and each value of a map that is not a string. The decoder does
// not report their paths, as it does for others. The type is that of the struct to decode a node into, or a pointer to
// it.
func invalidValues(n *source.Node, t reflect.Type, parent string) (list []source.Problem) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n == nil || n.Kind != source.Map || t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		name := fieldName(t.Field(i))
		value, fieldType := n.Field(name), t.Field(i).Type
		switch {
		case value == nil || value.Kind == source.Null:
		case fieldType == reflect.TypeFor[time.Time]():
			if _, err := time.Parse(time.RFC3339, value.Text); err != nil || !value.Quoted {
				list = append(list, invalidValue(parent+name, value, "a time, such as 2027-01-31T18:00:00Z"))
			}
		case fieldType == reflect.TypeFor[map[string]string]():
			for _, member := range value.Fields {
				if !member.Value.Quoted && len(list) < rules.MaxProblems {
					list = append(list, invalidValue(parent+name+"."+member.Name, member.Value, "a text"))
				}
			}
		default:
			list = append(list, invalidValues(value, fieldType, parent+name+".")...)
		}
	}
	return list
}

func invalidValue(path string, n *source.Node, want string) source.Problem {
	value := n.Kind.String()
	if n.Kind == source.Scalar {
		value = n.Text
		if n.Quoted {
			value = rules.Quote(n.Text)
		}
	}
	return source.Problem{Path: path, Value: value, Want: want, Line: n.Line, Column: n.Column}
}

// typeName returns the name in JSON of a Go type.
func typeName(t reflect.Type) string {
	switch kind := t.Kind(); kind {
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	default:
		return "a " + kind.String()
	}
}
