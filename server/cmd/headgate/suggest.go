package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// suggestFlag returns ", did you mean --NAME?" if err is about an unknown flag whose name is similar to a flag of the
// command, else "".
func suggestFlag(c *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	name := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" { // -upstream is read as -u -p …
		name = short
	}
	best, least := "", min(3, len(name)) // at most two differences
	look := func(f *pflag.Flag) {
		if d := editDistance(name, f.Name); !f.Hidden && d < least {
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

// editDistance returns how many letters must be added, removed, replaced or swapped with their neighbour to turn a into
// b (the optimal string alignment distance). It returns 1 if a has at least three letters and b begins with a.
func editDistance(a, b string) int {
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
