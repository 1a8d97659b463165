package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/secretfile"
	"github.com/headgate/headgate/rules/file/source"
)

// ErrInvalid is wrapped by errors about the content of the file.
var ErrInvalid = errors.New("invalid configuration")

// An origin is the flag or environment variable that has set a setting, such as "--store", or "" for the file.
type origin string

// isEnv reports whether the origin is an environment variable.
func (o origin) isEnv() bool { return strings.HasPrefix(string(o), variablePrefix) }

// Inputs are the flags and environment variables that Load reads.
type Inputs struct {
	// Flags are the values of the flags on the command line, by name without dashes.
	Flags map[string]string
	// Environ are the variables, in the format of os.Environ.
	Environ []string
}

// Load reads and validates the settings, including those of the file that --config or HEADGATE_CONFIG names. It also
// returns warnings.
func Load(in Inputs) (*Config, []string, error) {
	c := defaults()
	c.origins = make(map[string]origin)
	c.stateEnv = stateVariables(in.Environ)
	variables, warnings := settingVariables(in.Environ)
	path, pathOrigin := in.Flags[configName], "--"+configName
	if path == "" {
		path, pathOrigin = variables[configName], variablePrefix+variableName(configName)
	}
	if path != "" {
		if err := c.readFile(path); err != nil {
			return nil, nil, wrapFileError(err, pathOrigin)
		}
	}
	settings := Settings()
	for i := range settings {
		s := &settings[i]
		if c.file != nil && c.file.parsed.Root != nil && c.file.parsed.Root.Field(s.Field()) != nil {
			c.origins[s.Name] = ""
		}
		value, valueOrigin := "", origin("")
		if v, ok := variables[s.Name]; ok {
			value, valueOrigin = v, origin(s.Variable())
		}
		if v, ok := in.Flags[s.Name]; ok {
			value, valueOrigin = v, origin("--"+s.Name)
		}
		if valueOrigin == "" {
			continue
		}
		if err := s.set(&c, value); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", valueOrigin, err)
		}
		c.origins[s.Name] = valueOrigin
	}
	if err := c.validate(); err != nil {
		return nil, nil, err
	}
	return &c, warnings, nil
}

// wrapFileError adds to an error the flag or variable that names the file, unless the error has a position in the file.
func wrapFileError(err error, pathOrigin string) error {
	var e *source.Error
	if errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("%s: %w", pathOrigin, err)
}

// settingVariables returns the values of settings in the environment, by the name of the setting, and warnings about
// unknown HEADGATE_ variables. It ignores empty variables, because many systems can override a variable but not remove
// it.
func settingVariables(environ []string) (values map[string]string, warnings []string) {
	names := map[string]string{variablePrefix + variableName(configName): configName}
	for _, s := range Settings() {
		names[s.Variable()] = s.Name
	}
	values = make(map[string]string)
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		suffix, ok := strings.CutPrefix(name, variablePrefix)
		if !ok || value == "" {
			continue
		}
		switch known, ok := names[name]; {
		case ok:
			values[known] = value
		case !isServiceLink(suffix) && !slices.Contains(clientVariables, suffix):
			warnings = append(warnings,
				name+" is not a setting of headgate and is ignored; the settings are "+sortedNames(names))
		}
	}
	slices.Sort(warnings)
	return values, warnings
}

// clientVariables are the variables, without HEADGATE_, of commands that call a rules service. A node has no such
// settings.
var clientVariables = []string{"SERVER", "TOKEN", "CONTEXT", "CONTEXTS"}

// isServiceLink reports whether HEADGATE_ and suffix is a variable that Kubernetes or Docker sets for a service with the
// name headgate.
func isServiceLink(suffix string) bool {
	return suffix == "PORT" || suffix == "SERVICE_HOST" || suffix == "SERVICE_PORT" || suffix == "NAME" ||
		strings.HasPrefix(suffix, "PORT_") || strings.HasPrefix(suffix, "SERVICE_PORT_")
}

func sortedNames(names map[string]string) string {
	var list []string
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// A file is the parsed configuration file and its directory.
type file struct {
	parsed *source.File
	dir    string
}

func (c *Config) readFile(path string) error {
	data, err := os.ReadFile(path)
	if err == nil { // the file may have passwords of stores, and names the files of secrets
		err = secretfile.Check(path)
	}
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
	problems := newCodec().Decode(f, c)
	if err := f.Error(problems, 0, ErrInvalid); err != nil {
		return err
	}
	c.resolvePaths(reflect.ValueOf(c).Elem())
	return nil
}

// resolvePaths joins the relative paths in v, a part of c, to the directory of the configuration file.
func (c *Config) resolvePaths(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.resolvePaths(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.resolvePaths(v.Index(i))
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
				c.resolvePaths(field)
			}
		}
	}
}

// isPath reports whether the value of the field with this name in the file is a path.
func isPath(name, value string) bool {
	switch name {
	case "rules", "envoy_config", "db_follows", "data_dir":
		return true
	case "db":
		return !strings.Contains(value, ":")
	}
	return strings.HasSuffix(name, "_file")
}

// Origin returns the place that has set a setting, for messages: "--store", "HEADGATE_STORE" or "headgate.yaml:3:8",
// for example. If the setting was not set, Origin returns its name.
func (c *Config) Origin(name string) string {
	setBy, ok := c.origins[name]
	switch {
	case !ok:
		return name
	case setBy != "":
		return string(setBy)
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
