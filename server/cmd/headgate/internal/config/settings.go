package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/headgate/headgate/identity"
)

// A Setting is a field of Config that is also a flag and an environment variable.
type Setting struct {
	Name    string // name of the flag, such as gateway-addr
	Arg     string // placeholder for the value in the help
	Usage   string
	Default string

	fieldIndex int // index of the field in Config
}

// Variable returns the name of the environment variable.
func (s *Setting) Variable() string { return variablePrefix + variableName(s.Name) }

// Field returns the name of the field in the file.
func (s *Setting) Field() string { return strings.ReplaceAll(s.Name, "-", "_") }

const variablePrefix = "HEADGATE_"

// configName is the setting that names the file. It is not a field of the file.
const configName = "config"

func variableName(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// Settings returns all settings except config, in the order of the fields of Config.
func Settings() []Setting {
	var list []Setting
	for field := range reflect.TypeFor[Config]().Fields() {
		if arg := field.Tag.Get("arg"); arg != "" {
			list = append(list, Setting{
				Name:       strings.ReplaceAll(field.Tag.Get("field"), "_", "-"),
				Arg:        arg,
				Usage:      usage(field.Tag.Get("doc")),
				Default:    field.Tag.Get("default"),
				fieldIndex: field.Index[0],
			})
		}
	}
	return list
}

// usage returns the help of a flag: the first sentence of its description, without the period. The first letter becomes
// lower case, unless the sentence begins with an abbreviation.
func usage(doc string) string {
	text, _, _ := strings.Cut(strings.TrimSuffix(doc, "."), ". ")
	first, size := utf8.DecodeRuneInString(text)
	if second, _ := utf8.DecodeRuneInString(text[size:]); unicode.IsUpper(second) {
		return text
	}
	return string(unicode.ToLower(first)) + text[size:]
}

// set parses the value of a flag or a variable. Lists are separated by commas.
func (s *Setting) set(c *Config, value string) (err error) {
	switch field := reflect.ValueOf(c).Elem().Field(s.fieldIndex).Addr().Interface().(type) {
	case *string:
		*field = value
	case *[]string:
		*field = nil
		for part := range strings.SplitSeq(value, ",") {
			if part = strings.TrimSpace(part); part != "" {
				*field = append(*field, part)
			}
		}
	case *[]netip.Prefix:
		*field, err = identity.ParseNetworks(value)
	default:
		panic(fmt.Sprintf("config: the setting %s has the type %T", s.Name, field)) // a test sets every setting
	}
	return err
}

// defaults returns a Config with the defaults of all settings. Sections are empty, because the packages that they
// configure have their own defaults.
func defaults() Config {
	var c Config
	for _, s := range Settings() {
		if s.Default != "" {
			if err := s.set(&c, s.Default); err != nil {
				panic(fmt.Sprintf("config: default of %s: %v", s.Name, err)) // a test calls defaults
			}
		}
	}
	return c
}
