package file_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/rules/file/source"
)

// plainOf returns a node as encoding/json would decode it.
func plainOf(n *source.Node) any {
	switch n.Kind {
	case source.List:
		list := make([]any, len(n.Items))
		for i, item := range n.Items {
			list[i] = plainOf(item)
		}
		return list
	case source.Map:
		fields := schema{}
		for _, f := range n.Fields {
			fields[f.Name] = plainOf(f.Value)
		}
		return fields
	case source.Null:
		return nil
	}
	if n.Quoted {
		return n.Text
	}
	if n.Text == "true" || n.Text == "false" {
		return n.Text == "true"
	}
	if _, err := strconv.ParseFloat(n.Text, 64); err == nil && json.Valid([]byte(n.Text)) {
		return json.Number(n.Text)
	}
	return n.Text
}

// A validator implements the keywords of JSON Schema that our schema uses, and fails at any other.
type validator struct {
	root     schema
	patterns map[string]*regexp.Regexp
}

func (v *validator) matches(pattern, text string) bool {
	e := v.patterns[pattern]
	if e == nil {
		e = regexp.MustCompile(pattern)
		if v.patterns == nil {
			v.patterns = map[string]*regexp.Regexp{}
		}
		v.patterns[pattern] = e
	}
	return e.MatchString(text)
}

func (v *validator) checkJSON(text []byte) error {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return err
	}
	return v.check(v.root, value, "")
}

var annotations = []string{"$schema", "$id", "$defs", "title", "description", "default", "examples"}

func (v *validator) check(s schema, value any, path string) error {
	for word, argument := range s {
		if slices.Contains(annotations, word) {
			continue
		}
		if err := v.word(s, word, argument, value, path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func (v *validator) word(s schema, word string, argument, value any, path string) error {
	text, isText := value.(string)
	number, isNumber := value.(json.Number)
	list, isList := value.([]any)
	fields, isMap := value.(schema)
	switch word {
	case "$ref":
		def := v.root["$defs"].(schema)[strings.TrimPrefix(argument.(string), "#/$defs/")]
		return v.check(def.(schema), value, path)
	case "oneOf", "anyOf":
		return v.some(word, argument.([]any), value, path)
	case "type":
		return checkType(argument, value)
	case "enum":
		for _, allowed := range argument.([]any) {
			if fmt.Sprint(allowed) == fmt.Sprint(value) {
				return nil
			}
		}
		return fmt.Errorf("%v is none of %v", value, argument)
	case "pattern":
		if isText && !v.matches(argument.(string), text) {
			return fmt.Errorf("%q does not match %s", text, argument)
		}
	case "maxLength":
		if isText && len(text) > int(argument.(float64)) {
			return errors.New("too long")
		}
	case "minimum", "maximum":
		if n, err := number.Float64(); isNumber && (err != nil || word == "minimum" && n < argument.(float64) || word == "maximum" && n > argument.(float64)) {
			return fmt.Errorf("%s: %s %v", number, word, argument)
		}
	case "minItems", "maxItems":
		if n := float64(len(list)); isList && (word == "minItems" && n < argument.(float64) || word == "maxItems" && n > argument.(float64)) {
			return fmt.Errorf("%v items: %s %v", n, word, argument)
		}
	case "uniqueItems":
		for i := range list {
			for j := range i {
				if reflect.DeepEqual(list[i], list[j]) {
					return errors.New("an item twice")
				}
			}
		}
	case "items":
		for i, item := range list {
			if err := v.check(argument.(schema), item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case "required":
		for _, name := range argument.([]any) {
			if _, ok := fields[name.(string)]; isMap && !ok {
				return fmt.Errorf("no %v", name)
			}
		}
	case "properties", "patternProperties":
		return v.fields(word, argument.(schema), fields, path)
	case "additionalProperties":
		return v.additional(s, argument, fields, path)
	case "propertyNames":
		for name := range fields {
			if err := v.check(argument.(schema), name, path); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("the validator does not know the word %q", word)
	}
	return nil
}

func (v *validator) some(word string, list []any, value any, path string) error {
	fits := 0
	var last error
	for _, s := range list {
		if err := v.check(s.(schema), value, path); err != nil {
			last = err
		} else {
			fits++
		}
	}
	if fits == 0 || word == "oneOf" && fits > 1 {
		return fmt.Errorf("fits %d of %s: %w", fits, word, last)
	}
	return nil
}

func (v *validator) fields(word string, properties, fields schema, path string) error {
	for name, s := range properties {
		for field, value := range fields {
			if word == "properties" && field == name || word == "patternProperties" && v.matches(name, field) {
				if err := v.check(s.(schema), value, path+"."+field); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (v *validator) additional(s schema, argument any, fields schema, path string) error {
	known, _ := s["properties"].(schema)
	patterns, _ := s["patternProperties"].(schema)
	others, taken := argument.(schema)
	for field, value := range fields {
		_, ok := known[field]
		for pattern := range patterns {
			ok = ok || v.matches(pattern, field)
		}
		if ok {
			continue
		}
		if !taken {
			return fmt.Errorf("unknown field %q", field)
		}
		if err := v.check(others, value, path+"."+field); err != nil {
			return err
		}
	}
	return nil
}

func checkType(want, value any) error {
	var got string
	switch value := value.(type) {
	case string:
		got = "string"
	case bool:
		got = "boolean"
	case nil:
		got = "null"
	case []any:
		got = "array"
	case schema:
		got = "object"
	case json.Number:
		got = "number"
		if n, _ := value.Float64(); n == math.Trunc(n) && (want == "integer") {
			got = "integer"
		}
	}
	if list, ok := want.([]any); ok {
		if slices.Contains(list, any(got)) {
			return nil
		}
	} else if want == got {
		return nil
	}
	return fmt.Errorf("%s, not %v", got, want)
}
