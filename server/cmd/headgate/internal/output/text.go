package output

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/headgate/headgate"
)

// Sanitize returns text on one line without control characters, with which text from a server could control the
// terminal.
func Sanitize(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return '\ufffd'
		}
		return r
	}, text)
}

// Truncate shortens text to at most maxRunes characters.
func Truncate(text string, maxRunes int) string {
	if r := []rune(text); len(r) > maxRunes {
		return string(r[:maxRunes-1]) + "…"
	}
	return text
}

// OrDash returns text, or "-" if it is empty.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// FormatAttributes formats attributes as "name=value", sorted by name and separated by spaces.
func FormatAttributes(attributes map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		list = append(list, name+"="+attributes[name])
	}
	return strings.Join(list, " ")
}

// Plural returns a count with its noun: "1 rule", "2 rules".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// RelativeTime returns how long ago t was, such as "3 days ago", or how far ahead it is, such as "in 3 days".
func RelativeTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := time.Since(t)
	switch {
	case d < 0:
		return "in " + RoughDuration(-d)
	case d < time.Second:
		return "now"
	}
	return RoughDuration(d) + " ago"
}

// LocalTime formats t in the local time zone.
func LocalTime(t time.Time) string { return t.Local().Format(time.DateTime) }

// Expiry formats the time at which something expires, or "never" for the zero time.
func Expiry(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format("2006-01-02 15:04") + " (" + RelativeTime(t) + ")"
}

// RoughDuration rounds d to the largest unit of which d has about two or more: 71h59m becomes 3 days, and 90m 90
// minutes.
func RoughDuration(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if d >= 2*unit.length-unit.length/20 {
			return Plural(int(d.Round(unit.length)/unit.length), unit.name)
		}
	}
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return Plural(int(d.Round(time.Second)/time.Second), "second")
}

// InMillis formats a time in ms milliseconds from now: "now" or "in 230ms", for example.
func InMillis(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d <= 0:
		return "now"
	case d < 10*time.Second:
		return "in " + d.Round(10*time.Millisecond).String()
	}
	return "in " + d.Round(time.Second).String()
}

// Duration formats the duration of a decision: "never" for headgate.Never, "-" for zero.
func Duration(d time.Duration) string {
	switch {
	case d == headgate.Never:
		return "never"
	case d <= 0:
		return "-"
	case d > time.Second:
		return d.Round(10 * time.Millisecond).String()
	default:
		return d.Round(100 * time.Microsecond).String()
	}
}

// WriteProgress writes a line of progress of a long command. On a terminal, it replaces the previous line. It ignores
// errors.
func WriteProgress(w io.Writer, terminal bool, text string) {
	if terminal {
		_, _ = io.WriteString(w, "\r\x1b[K"+text)
		return
	}
	_, _ = io.WriteString(w, "headgate: "+text+"\n")
}
