package source

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Problem is one invalid part of a file.
type Problem struct {
	// Path is the location of the part, such as "rules[3].limits[0]". It is empty if it is unknown.
	Path string
	// Value is the invalid value.
	Value string
	// Want describes a valid value.
	Want string
	// Line and Column are the position of the part in the file, or 0 if it is unknown.
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

// Follows reports whether a problem at a path may be a consequence of a known problem: one of the paths contains the
// other.
func Follows(path string, problems []Problem) bool {
	for _, p := range problems {
		if isWithin(path, p.Path) || isWithin(p.Path, path) {
			return true
		}
	}
	return false
}

func isWithin(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// An Error lists the problems of a file.
type Error struct {
	// File is the file's name.
	File string
	// Problems are the first MaxProblems problems.
	Problems []Problem
	// More is the number of problems that are not in the list.
	More int

	excerpts []string // for each problem, the line of the file and a caret
	err      error
}

// MaxProblems is the maximum number of problems that an Error lists.
const MaxProblems = 100

// Error returns every problem with its position and its line:
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

// Unwrap returns the error that was passed to File.Error as wrap.
func (e *Error) Unwrap() error { return e.err }

// hasUser reports whether a line has a URL with a user, and therefore probably a password.
func hasUser(line []byte) bool {
	for {
		_, rest, found := bytes.Cut(line, []byte("//"))
		if !found {
			return false
		}
		if end := bytes.IndexAny(rest, " \t\"'@"); end >= 0 && rest[end] == '@' {
			return true
		}
		line = rest
	}
}

// excerpt returns a line of the file for a message, or a part of it if it is long, with a caret below the column. It
// returns "" if the line has a URL with a password, or characters that cannot be printed.
func excerpt(line []byte, column int) string {
	if hasUser(line) {
		return ""
	}
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
	if len(rest) == 0 && skipped < caret { // the column is beyond the end of the line
		caret = skipped
	}
	end, shownRunes := 0, 0
	for shownRunes < width && end < len(rest) {
		_, n := utf8.DecodeRune(rest[end:])
		end += n
		shownRunes++
	}
	caret = min(caret-skipped, shownRunes)
	visible := strings.ReplaceAll(string(rest[:end]), "\t", " ")
	for _, r := range visible {
		if r < ' ' || r == utf8.RuneError || r == 0x7f {
			return "" // not printable
		}
	}
	if visible == "" {
		return ""
	}
	return "\n    " + visible + "\n    " + strings.Repeat(" ", caret) + "^"
}

// Error returns an *Error that wraps wrap and lists the problems in the order of their positions. It returns nil if
// there are none. more is the number of problems that are not in the list.
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
