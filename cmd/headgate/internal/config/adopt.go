package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/rules/source"
)

// adopt sets the fields of the struct that into points to from those of the same names of another, which has all of its
// fields there: what is written in a file becomes what a package takes, and nothing can be forgotten on the way. Types that
// differ in name only are converted.
func adopt(into, from any) {
	adoptStruct(reflect.ValueOf(into).Elem(), reflect.ValueOf(from))
}

func adoptStruct(into, from reflect.Value) {
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		field := into.FieldByName(name)
		if !field.IsValid() {
			panic(fmt.Sprintf("config: %v has no field %s", into.Type(), name)) // a test adopts everything
		}
		adoptValue(field, from.Field(i))
	}
}

func adoptValue(into, from reflect.Value) {
	switch {
	case from.Type().AssignableTo(into.Type()):
		into.Set(from)
	case from.Kind() == reflect.Struct:
		adoptStruct(into, from)
	case from.Kind() == reflect.Pointer:
		if !from.IsNil() {
			made := reflect.New(into.Type().Elem())
			adoptValue(made.Elem(), from.Elem())
			into.Set(made)
		}
	case from.Kind() == reflect.Slice:
		if from.IsNil() {
			return
		}
		made := reflect.MakeSlice(into.Type(), from.Len(), from.Len())
		for i := range from.Len() {
			adoptValue(made.Index(i), from.Index(i))
		}
		into.Set(made)
	default:
		into.Set(from.Convert(into.Type()))
	}
}

// written returns how a field of a struct is called in the file, by its Go name such as Routes[0].Upstreams[1].URL.
func written(t reflect.Type, field string) (string, bool) {
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

// renamed returns a text about a struct with its fields called as in the file.
func renamed(text string, t reflect.Type) string {
	for f := range t.Fields() {
		if tag, _, _ := strings.Cut(f.Tag.Get("field"), ","); tag != "" {
			text = replaceWord(text, f.Name, tag)
		}
	}
	return text
}

// about returns what a package says is wrong with a section, "identity: Hops 40: want 0 to 32", as a problem of the file.
func (c *Config) about(section string, err error, t reflect.Type) error {
	text := renamed(err.Error(), t)
	if _, rest, ok := strings.Cut(text, ": "); ok { // the name of the package
		text = rest
	}
	value, want := text, "something else"
	if i := strings.LastIndex(text, ": want "); i >= 0 {
		value, want = text[:i], text[i+len(": want "):]
	}
	path := section
	if word, rest, _ := strings.Cut(value, " "); slices.Contains(source.Names(t), strings.TrimSuffix(word, ":")) {
		path, value = section+"."+strings.TrimSuffix(word, ":"), rest
	}
	return c.at(path, value, want)
}

// replaceWord replaces a name where it stands as a word of its own.
func replaceWord(text, name, by string) string {
	var b strings.Builder
	for {
		at := strings.Index(text, name)
		if at < 0 {
			b.WriteString(text)
			return b.String()
		}
		end := at + len(name)
		alone := (at == 0 || !isLetter(text[at-1])) && (end == len(text) || !isLetter(text[end]))
		b.WriteString(text[:at])
		if alone {
			b.WriteString(by)
		} else {
			b.WriteString(name)
		}
		text = text[end:]
	}
}

func isLetter(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// at returns an error about a place in the file, or about the name of the section if there is no file or it says nothing
// of it.
func (c *Config) at(path, value, want string) error {
	p := source.Problem{Path: path, Value: value, Want: want}
	if c.file == nil || c.file.source.Root == nil || c.file.source.Root.Field(section(path)) == nil {
		return errors.New(p.String())
	}
	p.Line, p.Column = c.file.source.Locate(path)
	return c.file.source.Error([]source.Problem{p}, 0, ErrInvalid)
}

func section(path string) string {
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return path
}

// place returns where a path of the file stands: "headgate.yaml:3:8".
func (c *Config) place(path string) string {
	line, column := c.file.source.Locate(path)
	return c.file.source.Name + ":" + strconv.Itoa(line) + ":" + strconv.Itoa(column)
}
