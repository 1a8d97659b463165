package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headgate/headgate/rules/file/source"
)

// suggestFlag returns ", did you mean --NAME?" if err is about an unknown flag and the command has a flag with a
// similar name, otherwise "".
func suggestFlag(c *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	name := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" { // pflag reads -upstream as the short flags -u -p …
		name = short
	}
	var names []string
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	c.Flags().VisitAll(add)
	c.InheritedFlags().VisitAll(add)
	if len(name) < 2 { // a single letter is similar to every short name
		return ""
	}
	best := source.Closest(name, names)
	if i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, name) }); i >= 0 && len(name) > 2 {
		best = names[i]
	}
	if best == "" {
		return ""
	}
	return ", did you mean --" + best + "?"
}
