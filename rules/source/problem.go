package source

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Problem is one thing that is wrong with a file.
type Problem struct {
	// Path is where: "rules[3].limits[0]", empty if it is not known.
	Path string
	// Value is what is there.
	Value string
	// Want is what would be right.
	Want string
	// Line and Column are where it stands in the file, 0 if it is not known.
	Line, Column int
}

func (p Problem) String() string {
	var parts []string
	for _, part := range []string{p.Path, p.Value} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(append(parts, "want "+p.Want), ": ")
}

// Follows tells whether a path lies above or below one that is known to be wrong: what is wrong there may be but a
// consequence.
func Follows(path string, found []Problem) bool {
	for _, p := range found {
		if within(path, p.Path) || within(p.Path, path) {
			return true
		}
	}
	return false
}

func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// An Error is what is wrong with a file.
type Error struct {
	// File is its name.
	File string
	// Problems are the first MaxProblems.
	Problems []Problem
	// More is how many others there are.
	More int

	excerpts []string // of the lines of the problems
	err      error
}

// MaxProblems is how many problems are reported at once.
const MaxProblems = 100

// Error returns every problem with its place and the line that it is in:
//
//	rules.yaml:6:14: rules[0].limits[0]: Count "ten": want a whole number from 1 to 1099511627776
//	    limits: [ten/s]
//	             ^
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.File)
		if p.Line > 0 {
			b.WriteString(":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column))
		}
		b.WriteString(": " + p.String())
		if p.Line > 0 {
			b.WriteString(e.excerpts[i])
		}
	}
	if e.More > 0 {
		b.WriteString("\n" + e.File + ": and " + strconv.Itoa(e.More) + " more")
	}
	return b.String()
}

// Unwrap returns the kind of error that File.Error was given.
func (e *Error) Unwrap() error { return e.err }

// excerpt shows a line below a message, or what is around the column if it is long, and a caret below the column.
func excerpt(line []byte, column int) string {
	const before, width = 40, 100
	start, caret := 0, max(column-1, 0)
	if caret > width-20 {
		start = caret - before
	}
	rest, skipped := line, 0
	for skipped < start && len(rest) > 0 {
		_, n := utf8.DecodeRune(rest)
		rest = rest[n:]
		skipped++
	}
	if len(rest) == 0 && skipped < caret { // the column is behind the end of the line
		caret = skipped
	}
	end, shownRunes := 0, 0
	for shownRunes < width && end < len(rest) {
		_, n := utf8.DecodeRune(rest[end:])
		end += n
		shownRunes++
	}
	caret = min(caret-skipped, shownRunes)
	shown := strings.ReplaceAll(string(rest[:end]), "\t", " ")
	for _, r := range shown {
		if r < ' ' || r == utf8.RuneError || r == 0x7f {
			return "" // not to be shown on a terminal
		}
	}
	if shown == "" {
		return ""
	}
	return "\n    " + shown + "\n    " + strings.Repeat(" ", caret) + "^"
}

// Error returns problems as an error, in the order of their places, nil if there are none. There are more than are given.
// It wraps what it is given.
func (f *File) Error(problems []Problem, more int, wrap error) error {
	if len(problems) == 0 {
		return nil
	}
	problems = slices.Clone(problems)
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if len(problems) > MaxProblems {
		problems, more = problems[:MaxProblems], more+len(problems)-MaxProblems
	}
	e := &Error{File: f.Name, Problems: problems, More: more, err: wrap}
	for _, p := range e.Problems {
		e.excerpts = append(e.excerpts, excerpt(f.line(p.Line), p.Column))
	}
	return e
}
