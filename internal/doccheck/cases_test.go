package doccheck

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/headgate/headgate/algorithm"
)

// A worked example is a block that begins like a case of a script. It may leave out the end of the case.
func TestWorkedExamplesAreCasesThatEveryStoreReplays(t *testing.T) {
	cases := make(map[string][]string) // the texts of the cases, by their first line
	files, err := fs.Glob(algorithm.Cases, "testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		script, err := fs.ReadFile(algorithm.Cases, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range strings.Split("\n"+string(script), "\ncase ")[1:] {
			text = oneSpace("case " + text)
			name, _, _ := strings.Cut(text, "\n")
			cases[name] = append(cases[name], text)
		}
	}
	examples := 0
	for _, path := range documents(t) {
		for _, b := range blocks(read(t, path)) {
			if !strings.HasPrefix(b.text, "case ") {
				continue
			}
			examples++
			text := oneSpace(b.text)
			name, _, _ := strings.Cut(text, "\n")
			begins := false
			for _, c := range cases[name] {
				begins = begins || strings.HasPrefix(c, text)
			}
			if !begins {
				t.Errorf("%s:%d: got\n%s\nwant the beginning of %q", path, b.line, text, cases[name])
			}
		}
	}
	if examples == 0 {
		t.Error("no worked examples found")
	}
}

// oneSpace returns the lines of a text with one space where there are several, and without the last line's end.
func oneSpace(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
