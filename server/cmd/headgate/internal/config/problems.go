package config

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/rules/file/source"
)

// fieldPath converts the Go path of a field in a struct of type t, such as Routes[0].Upstreams[1].URL, to its path in
// the file.
func fieldPath(t reflect.Type, field string) (string, bool) {
	var path strings.Builder
	for part := range strings.SplitSeq(field, ".") {
		name, index, indexed := strings.Cut(part, "[")
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return "", false
		}
		f, ok := t.FieldByName(name)
		if !ok {
			return "", false
		}
		tag, _, _ := strings.Cut(f.Tag.Get("field"), ",")
		if path.Len() > 0 {
			path.WriteByte('.')
		}
		path.WriteString(tag)
		if indexed {
			path.WriteString("[" + index)
		}
		t = f.Type
	}
	return path.String(), true
}

// useFieldNames replaces Go names of fields of the struct type t in text with their names in the file.
func useFieldNames(text string, t reflect.Type) string {
	for f := range t.Fields() {
		if tag, _, _ := strings.Cut(f.Tag.Get("field"), ","); tag != "" {
			text = replaceWord(text, f.Name, tag)
		}
	}
	return text
}

// sectionError converts the error of a package about a section, such as "identity: Hops 40: want 0 to 32", to an error
// with the position of the field in the file. t is the type of the section.
func (c *Config) sectionError(section string, err error, t reflect.Type) error {
	text := useFieldNames(err.Error(), t)
	if _, rest, ok := strings.Cut(text, ": "); ok { // removes the name of the package
		text = rest
	}
	value, want := text, "a valid value" // value begins with the name of the field
	if i := strings.LastIndex(text, ": want "); i >= 0 {
		value, want = text[:i], text[i+len(": want "):]
	}
	path := section
	if word, rest, _ := strings.Cut(value, " "); slices.Contains(source.Names(t), strings.TrimSuffix(word, ":")) {
		path, value = section+"."+strings.TrimSuffix(word, ":"), rest
	}
	return c.problemAt(path, value, want)
}

// replaceWord replaces each occurrence of name in text that is a whole word.
func replaceWord(text, name, replacement string) string {
	var b strings.Builder
	for {
		start := strings.Index(text, name)
		if start < 0 {
			b.WriteString(text)
			return b.String()
		}
		end := start + len(name)
		whole := (start == 0 || !isNameByte(text[start-1])) && (end == len(text) || !isNameByte(text[end]))
		b.WriteString(text[:start])
		if whole {
			b.WriteString(replacement)
		} else {
			b.WriteString(name)
		}
		text = text[end:]
	}
}

// isNameByte reports whether a byte can be part of a name. c|0x20 is the lower case of a letter.
func isNameByte(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// problemAt returns an error about the value at path, such as redis.nodes, with its position if the file contains the
// top-level setting.
func (c *Config) problemAt(path, value, want string) error {
	p := source.Problem{Path: path, Value: value, Want: want}
	if c.file == nil || c.file.parsed.Root == nil || c.file.parsed.Root.Field(topLevelName(path)) == nil {
		return errors.New(p.String())
	}
	p.Line, p.Column = c.file.parsed.Locate(path)
	return c.file.parsed.Error([]source.Problem{p}, 0, ErrInvalid)
}

func topLevelName(path string) string {
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return path
}

// position returns the position of a path in the file: "headgate.yaml:3:8".
func (c *Config) position(path string) string {
	line, column := c.file.parsed.Locate(path)
	return c.file.parsed.Name + ":" + strconv.Itoa(line) + ":" + strconv.Itoa(column)
}
