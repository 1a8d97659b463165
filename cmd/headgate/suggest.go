package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// suggestFlag returns ", did you mean --NAME?" if a flag error is about a name that is nearly that of a flag of the command,
// else nothing.
func suggestFlag(c *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	name := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" { // -upstream is read as -u -p …
		name = short
	}
	best, least := "", min(3, len(name)) // more than two mistakes are another word
	look := func(f *pflag.Flag) {
		if d := mistakes(name, f.Name); !f.Hidden && d < least {
			best, least = f.Name, d
		}
	}
	c.Flags().VisitAll(look)
	c.InheritedFlags().VisitAll(look)
	if best == "" {
		return ""
	}
	return ", did you mean --" + best + "?"
}

// mistakes returns how many letters have to be added, left out, replaced or swapped with their neighbour to make one word of
// another, and at most 1 if one begins with the other.
func mistakes(a, b string) int {
	if len(a) > 2 && strings.HasPrefix(b, a) {
		return 1
	}
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
