package main

import (
	"testing"

	"github.com/spf13/cobra"
)

func TestSuggestionsForMistypedFlags(t *testing.T) {
	for arg, want := range map[string]string{
		"--upstrem":  ", did you mean --upstream?",
		"-upstream":  ", did you mean --upstream?",
		"-db":        ", did you mean --db?",
		"-u":         "",
		"--x":        "",
		"--another":  "",
		"--upstreem": ", did you mean --upstream?",
	} {
		c := &cobra.Command{}
		c.Flags().String("upstream", "", "")
		c.Flags().String("db", "", "")
		if got := suggestFlag(c, c.ParseFlags([]string{arg})); got != want {
			t.Errorf("suggestion for %s = %q, want %q", arg, got, want)
		}
	}
}
