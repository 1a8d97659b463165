package cli

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
)

// AddSettingFlags adds --config and the flags of the settings with the given names, or of all settings if names is nil.
// After the command line was parsed, changed returns the values of the flags that the user has set, by name.
func AddSettingFlags(flags *pflag.FlagSet, names []string) (changed func() map[string]string) {
	values := make(map[string]*textFlag)
	add := func(name, value, arg, usage string) {
		values[name] = &textFlag{text: value, arg: arg}
		flags.Var(values[name], name, usage)
	}
	add("config", "", "FILE", "configuration file, YAML or JSON; flags and variables take precedence over it")
	for _, s := range config.Settings() {
		if names == nil || slices.Contains(names, s.Name) {
			add(s.Name, s.Default, s.Arg, s.Usage)
		}
	}
	return func() map[string]string {
		list := make(map[string]string)
		for name, value := range values {
			if flags.Changed(name) {
				list[name] = value.text
			}
		}
		return list
	}
}

// A textFlag is a string flag. arg is the placeholder of its value in the help.
type textFlag struct{ text, arg string }

func (f *textFlag) String() string { return f.text }
func (f *textFlag) Type() string   { return f.arg }

func (f *textFlag) Set(text string) error {
	f.text = text
	return nil
}
