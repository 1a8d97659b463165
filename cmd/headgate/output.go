package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/rules/source"
)

// A format is how results are written: tables and sentences for people, JSON and YAML for programs.
type format string

const (
	formatTable format = "table"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
)

// formatFlag adds --output to a command. What is in out already is the default.
func formatFlag(c *cobra.Command, out *format) {
	if *out == "" {
		*out = formatTable
	}
	c.Flags().VarP(out, "output", "o", "table, json or yaml")
	_ = c.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{string(formatTable), string(formatJSON), string(formatYAML)}, cobra.ShellCompDirectiveNoFileComp
	}) // it is there
}

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "FORMAT" }

func (f *format) Set(text string) error {
	switch format(text) {
	case formatTable, formatJSON, formatYAML:
		*f = format(text)
	case "text": // what has no columns
		*f = formatTable
	default:
		return errors.New("want table, json or yaml")
	}
	return nil
}

// show writes a value as JSON or YAML, or rows as a table.
func (p *program) show(f format, value any, head []string, rows [][]string) error {
	if f == formatTable {
		return p.table(head, rows)
	}
	var data bytes.Buffer
	e := json.NewEncoder(&data)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	return p.showRaw(f, data.Bytes())
}

// showRaw writes JSON as what a person reads.
func (p *program) showRaw(f format, data []byte) error {
	text, err := written(f, data)
	if err != nil {
		return err
	}
	_, err = p.stdout.Write(text)
	return err
}

// written turns JSON into what a person reads.
func written(f format, data []byte) ([]byte, error) {
	if f == formatJSON {
		var b bytes.Buffer
		if err := json.Indent(&b, bytes.TrimSpace(data), "", "  "); err != nil {
			return nil, err
		}
		b.WriteByte('\n')
		return b.Bytes(), nil
	}
	read, err := source.Read("answer.json", data)
	if err != nil {
		return nil, err
	}
	return source.YAML(read.Root), nil
}

// table writes columns that stand under each other, whatever cells are empty.
func (p *program) table(head []string, rows [][]string) error {
	if len(rows) == 0 {
		p.say("none\n")
		return nil
	}
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		for _, cell := range row {
			_, _ = fmt.Fprint(w, plain(cell), "\t") // memory takes it
		}
		_, _ = fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		p.say("%s\n", strings.TrimRight(line, " \n"))
	}
	return nil
}

// plain returns a text on one line that has no power over a terminal: others have written it.
func plain(text string) string {
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

// cut shortens a text to so many characters.
func cut(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// number writes how many things there are.
func number(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// ago says how long ago a time was.
func ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := time.Since(t)
	switch {
	case d < 0:
		return "in " + lasting(-d)
	case d < time.Second:
		return "now"
	}
	return lasting(d) + " ago"
}

// clock writes a time as clocks here show it.
func clock(t time.Time) string { return t.Local().Format(time.DateTime) }

// until writes when something ends, and how long that is.
func until(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format("2006-01-02 15:04") + " (" + ago(t) + ")"
}

// lasting writes a time in the largest unit of which there are about two or more, rounded: 71h59m are 3 days, 90m are 90 minutes.
func lasting(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if d >= 2*unit.of-unit.of/20 {
			return number(int(d.Round(unit.of)/unit.of), unit.name)
		}
	}
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return number(int(d.Round(time.Second)/time.Second), "second")
}

// soon says in how many milliseconds.
func soon(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d <= 0:
		return "now"
	case d < 10*time.Second:
		return "in " + d.Round(10*time.Millisecond).String()
	}
	return "in " + d.Round(time.Second).String()
}
