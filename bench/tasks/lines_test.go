package tasks

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	tasks    = 10
	most     = 15 // lines of a task, except the last two
	morethan = 2  // lines more than the best peer
)

// A solution is the code of a task with one library.
type solution struct {
	task    int
	name    string // of the task
	library string
	lines   int
}

// solutions reads the code between the marks of this package's files. Blank lines and comments do not count.
func solutions(t *testing.T) []solution {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var all []solution
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var open *solution
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			mark, begins := strings.CutPrefix(line, "// task: ")
			switch {
			case begins:
				number, rest, _ := strings.Cut(mark, " ")
				name, library, found := strings.Cut(rest, ", ")
				n, err := strconv.Atoi(number)
				if err != nil || !found {
					t.Fatalf("%s: mark %q", file, mark)
				}
				open = &solution{task: n, name: name, library: library}
			case line == "// end" && open != nil:
				all = append(all, *open)
				open = nil
			case open != nil && line != "" && !strings.HasPrefix(line, "//"):
				open.lines++
			}
		}
	}
	return all
}

// The API is as short to use as the best of the others, and the page says how short.
func TestTasksTakeFewLines(t *testing.T) {
	page, err := os.ReadFile("../../docs/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	all := solutions(t)
	for task := range tasks {
		task++
		own, best := solution{}, solution{}
		for _, s := range all {
			switch {
			case s.task != task:
			case s.library == "Headgate":
				own = s
			case best.lines == 0 || s.lines < best.lines:
				best = s
			}
		}
		if own.lines == 0 || best.lines == 0 {
			t.Errorf("task %d: %d lines with Headgate and %d with another library, want some of both", task, own.lines, best.lines)
			continue
		}
		if own.lines > best.lines+morethan {
			t.Errorf("%s: %d lines, want at most %d more than the %d with %s", own.name, own.lines, morethan, best.lines, best.library)
		}
		if task <= tasks-2 && own.lines > most {
			t.Errorf("%s: %d lines, want at most %d", own.name, own.lines, most)
		}
		if row := fmt.Sprintf("| %s | %d | %d (%s) |", own.name, own.lines, best.lines, best.library); !slices.Contains(strings.Split(string(page), "\n"), row) {
			t.Errorf("docs/migrate.md does not have this row:\n%s", row)
		}
	}
}
