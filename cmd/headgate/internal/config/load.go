package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/headgate/headgate/rules/source"
)

// ErrInvalid is wrapped by errors about what is written in a file.
var ErrInvalid = errors.New("invalid configuration")

// An origin is where a setting was given: a flag, a variable, or the file if it is neither.
type origin string

func (o origin) variable() bool { return strings.HasPrefix(string(o), variablePrefix) }

// Given is what a node is told.
type Given struct {
	// Flags are those of the command line, by name. Only those that were given.
	Flags map[string]string
	// Environ are the variables, as os.Environ has them.
	Environ []string
}

// Load returns what is given, and in addition what is suspicious about it but no error. It reads the file that the setting
// config names, if it does.
func Load(given Given) (*Config, []string, error) {
	c := defaults()
	c.origins = make(map[string]origin)
	c.environ = systemPlaces(given.Environ)
	variables, warnings := ours(given.Environ)
	path, from := given.Flags[configName], "--"+configName
	if path == "" {
		path, from = variables[configName], variablePrefix+upper(configName)
	}
	if path != "" {
		if err := c.readFile(path); err != nil {
			return nil, nil, named(err, from)
		}
	}
	settings := Settings()
	for i := range settings {
		s := &settings[i]
		if c.file != nil && c.file.source.Root != nil && c.file.source.Root.Field(s.Field()) != nil {
			c.origins[s.Name] = ""
		}
		value, from := "", origin("")
		if v, ok := variables[s.Name]; ok {
			value, from = v, origin(s.Variable())
		}
		if v, ok := given.Flags[s.Name]; ok {
			value, from = v, origin("--"+s.Name)
		}
		if from == "" {
			continue
		}
		if err := s.set(&c, value); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", from, err)
		}
		c.origins[s.Name] = from
	}
	if err := c.validate(); err != nil {
		return nil, nil, err
	}
	return &c, warnings, nil
}

// named says who named a file, unless the error says where in the file it is.
func named(err error, from string) error {
	var e *source.Error
	if errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("%s: %w", from, err)
}

// ours returns the variables that are settings, by their names. An empty one is as good as none, as it cannot be removed in
// many places where variables are set.
func ours(environ []string) (values map[string]string, warnings []string) {
	names := map[string]string{variablePrefix + upper(configName): configName}
	for _, s := range Settings() {
		names[s.Variable()] = s.Name
	}
	values = make(map[string]string)
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		rest, ok := strings.CutPrefix(name, variablePrefix)
		if !ok || value == "" {
			continue
		}
		switch known, ok := names[name]; {
		case ok:
			values[known] = value
		case !isServiceLink(rest) && !slices.Contains(othersVariables, rest):
			warnings = append(warnings, name+" is no setting of headgate and does nothing; those are "+listed(names))
		}
	}
	slices.Sort(warnings)
	return values, warnings
}

// othersVariables are those of commands that talk to a rules service, and no settings of a node.
var othersVariables = []string{"SERVER", "TOKEN", "CONTEXT", "CONTEXTS"}

// isServiceLink reports whether a variable is one that Kubernetes and Docker set for a service of the name headgate.
func isServiceLink(rest string) bool {
	return rest == "PORT" || rest == "SERVICE_HOST" || rest == "SERVICE_PORT" || rest == "NAME" ||
		strings.HasPrefix(rest, "PORT_") || strings.HasPrefix(rest, "SERVICE_PORT_")
}

func listed(names map[string]string) string {
	var list []string
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// A file is where a part of a Config was read from.
type file struct {
	source *source.File
	dir    string
}

func (c *Config) readFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	return c.parseFile(path, data)
}

func (c *Config) parseFile(path string, data []byte) error {
	f, err := source.Read(path, data)
	if err != nil {
		return err
	}
	c.file = &file{source: f, dir: filepath.Dir(path)}
	if f.Root == nil { // nothing but comments
		return nil
	}
	found := newCodec().Decode(f, c)
	if err := f.Error(found, 0, ErrInvalid); err != nil {
		return err
	}
	c.resolve(reflect.ValueOf(c).Elem())
	return nil
}

// resolve makes the names of files in the file relative to where it is.
func (c *Config) resolve(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.resolve(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.resolve(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Tag.Get("field")
			field := v.Field(i)
			if field.Kind() == reflect.String && isPath(name, field.String()) {
				if path := field.String(); path != "" && !filepath.IsAbs(path) {
					field.SetString(filepath.Join(c.file.dir, path))
				}
			} else if name != "" {
				c.resolve(field)
			}
		}
	}
}

// isPath reports whether a field names a file or a directory.
func isPath(name, value string) bool {
	switch name {
	case "rules", "envoy_config", "db_follows", "data_dir":
		return true
	case "db":
		return !strings.Contains(value, ":")
	}
	return strings.HasSuffix(name, "_file")
}

// Where says where a setting was given, for messages: "--store", "HEADGATE_STORE", "headgate.yaml:3:8", or the name of the
// setting if it was not given.
func (c *Config) Where(name string) string {
	from, ok := c.origins[name]
	switch {
	case !ok:
		return name
	case from != "":
		return string(from)
	default:
		line, column := c.file.source.Locate(strings.ReplaceAll(name, "-", "_"))
		return fmt.Sprintf("%s:%d:%d", c.file.source.Name, line, column)
	}
}

// Given reports whether a setting was given.
func (c *Config) Given(name string) bool {
	_, ok := c.origins[name]
	return ok
}

// File returns the file that was read, empty if there was none.
func (c *Config) File() string {
	if c.file == nil {
		return ""
	}
	return c.file.source.Name
}
