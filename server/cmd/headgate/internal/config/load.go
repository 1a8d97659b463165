package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/headgate/headgate/rules/file/source"
)

// ErrInvalid is wrapped by errors about the content of the file.
var ErrInvalid = errors.New("invalid configuration")

// An origin is where a setting was set: the name of a flag or environment variable, or empty for the file.
type origin string

// isEnv reports whether the origin is an environment variable.
func (o origin) isEnv() bool { return strings.HasPrefix(string(o), variablePrefix) }

// Inputs are the flags and variables that Load reads.
type Inputs struct {
	// Flags are the flags on the command line, by name.
	Flags map[string]string
	// Environ are the variables, in the format of os.Environ.
	Environ []string
}

// Load reads and validates the settings, including those of the file that the setting config names. It also returns
// warnings.
func Load(in Inputs) (*Config, []string, error) {
	c := defaults()
	c.origins = make(map[string]origin)
	c.environ = stateVariables(in.Environ)
	variables, warnings := ownVariables(in.Environ)
	path, from := in.Flags[configName], "--"+configName
	if path == "" {
		path, from = variables[configName], variablePrefix+variableName(configName)
	}
	if path != "" {
		if err := c.readFile(path); err != nil {
			return nil, nil, wrapFileError(err, from)
		}
	}
	settings := Settings()
	for i := range settings {
		s := &settings[i]
		if c.file != nil && c.file.parsed.Root != nil && c.file.parsed.Root.Field(s.Field()) != nil {
			c.origins[s.Name] = ""
		}
		value, from := "", origin("")
		if v, ok := variables[s.Name]; ok {
			value, from = v, origin(s.Variable())
		}
		if v, ok := in.Flags[s.Name]; ok {
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

// wrapFileError adds the setting that names the file, unless the error has a position in the file.
func wrapFileError(err error, from string) error {
	var e *source.Error
	if errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("%s: %w", from, err)
}

// ownVariables returns the values of settings in the environment, by name of the setting, and warnings about unknown
// HEADGATE_ variables. Empty variables are ignored: many systems can override a variable but not remove it.
func ownVariables(environ []string) (values map[string]string, warnings []string) {
	names := map[string]string{variablePrefix + variableName(configName): configName}
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
		case !isServiceLink(rest) && !slices.Contains(clientVariables, rest):
			warnings = append(warnings,
				name+" is not a setting of headgate and is ignored; the settings are "+sortedNames(names))
		}
	}
	slices.Sort(warnings)
	return values, warnings
}

// clientVariables are variables of commands that call a rules service. They are not settings of a node.
var clientVariables = []string{"SERVER", "TOKEN", "CONTEXT", "CONTEXTS"}

// isServiceLink reports whether a variable is one that Kubernetes or Docker sets for a service with the name headgate.
func isServiceLink(rest string) bool {
	return rest == "PORT" || rest == "SERVICE_HOST" || rest == "SERVICE_PORT" || rest == "NAME" ||
		strings.HasPrefix(rest, "PORT_") || strings.HasPrefix(rest, "SERVICE_PORT_")
}

func sortedNames(names map[string]string) string {
	var list []string
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// A file is the configuration file.
type file struct {
	parsed *source.File
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
	c.file = &file{parsed: f, dir: filepath.Dir(path)}
	if f.Root == nil { // only comments
		return nil
	}
	found := newCodec().Decode(f, c)
	if err := f.Error(found, 0, ErrInvalid); err != nil {
		return err
	}
	c.resolve(reflect.ValueOf(c).Elem())
	return nil
}

// resolve makes relative paths in the file relative to its directory.
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

// Origin returns where a setting was set, for messages: "--store", "HEADGATE_STORE", "headgate.yaml:3:8", or the name
// of the setting if it was not set.
func (c *Config) Origin(name string) string {
	from, ok := c.origins[name]
	switch {
	case !ok:
		return name
	case from != "":
		return string(from)
	default:
		line, column := c.file.parsed.Locate(strings.ReplaceAll(name, "-", "_"))
		return fmt.Sprintf("%s:%d:%d", c.file.parsed.Name, line, column)
	}
}

// IsSet reports whether a setting was set by a flag, a variable or the file.
func (c *Config) IsSet(name string) bool {
	_, ok := c.origins[name]
	return ok
}

// File returns the path of the file, or "" if there is none.
func (c *Config) File() string {
	if c.file == nil {
		return ""
	}
	return c.file.parsed.Name
}
