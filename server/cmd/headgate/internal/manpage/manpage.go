// Package manpage writes manual pages of commands in roff.
package manpage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Footer is the content of the last line of each page.
type Footer struct {
	Version string    // version of the program
	Date    time.Time // date of the build; zero if it is unknown
}

// Name returns the name of a command's page, such as headgate-rules-lint.
func Name(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// WriteAll writes the pages of a command and of all its subcommands to a directory, and returns their number.
func WriteAll(dir string, c *cobra.Command, f Footer) (pages int, err error) {
	if !c.IsAvailableCommand() && c.HasParent() {
		return 0, nil
	}
	if err := os.WriteFile(filepath.Join(dir, Name(c)+".1"), Page(c, f), 0o644); err != nil {
		return 0, err
	}
	pages = 1
	for _, sub := range c.Commands() {
		n, err := WriteAll(dir, sub, f)
		if err != nil {
			return pages, err
		}
		pages += n
	}
	return pages, nil
}

// Page returns the manual page of a command.
func Page(c *cobra.Command, f Footer) []byte {
	c.InitDefaultHelpFlag()
	w := new(writer)
	date := ""
	if !f.Date.IsZero() {
		date = f.Date.UTC().Format(time.DateOnly)
	}
	w.line(".TH %s 1 %s %s %s", quote(strings.ToUpper(Name(c))), quote(date), quote("headgate "+f.Version),
		quote("Headgate"))
	w.section("NAME")
	w.text(Name(c) + " - " + c.Short)
	w.section("SYNOPSIS")
	use := c.UseLine()
	if c.HasAvailableSubCommands() {
		use = c.CommandPath() + " COMMAND [flags]"
	}
	w.line(".B %s", escape(use))
	w.section("DESCRIPTION")
	w.paragraphs(c.Long, c.Short+".")
	w.commands(c)
	w.flags("OPTIONS", c.NonInheritedFlags())
	w.flags("GLOBAL OPTIONS", c.InheritedFlags())
	if c.Example != "" {
		w.section("EXAMPLES")
		w.verbatim(c.Example)
	}
	w.seeAlso(c)
	return w.Bytes()
}

// A writer collects a page.
type writer struct{ bytes.Buffer }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

func (w *writer) section(name string) { w.line(".SH %s", name) }

// text writes a line of running text.
func (w *writer) text(text string) { w.line("%s", escape(text)) }

// paragraphs writes a text whose paragraphs are separated by empty lines. Indented paragraphs are not filled. If text
// is empty, it writes fallback.
func (w *writer) paragraphs(text, fallback string) {
	if text == "" {
		text = fallback
	}
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(paragraph, "\t") || strings.HasPrefix(paragraph, "  ") {
			w.verbatim(paragraph)
			continue
		}
		if i > 0 {
			w.line(".PP")
		}
		w.text(paragraph)
	}
}

func (w *writer) verbatim(text string) {
	w.line(".PP\n.nf")
	w.text(strings.Trim(text, "\n"))
	w.line(".fi")
}

func (w *writer) commands(c *cobra.Command) {
	if !c.HasAvailableSubCommands() {
		return
	}
	w.section("COMMANDS")
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			w.line(".TP\n.BR %s (1)", escape(Name(sub)))
			w.text(sub.Short)
		}
	}
}

func (w *writer) flags(section string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	w.section(section)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		arg, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if arg != "" {
			name += "=" + arg
		}
		w.line(".TP\n.B %s", escape(name))
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" {
			usage += " (default " + f.DefValue + ")"
		}
		w.text(usage)
	})
}

func (w *writer) seeAlso(c *cobra.Command) {
	var names []string
	if c.HasParent() {
		names = append(names, Name(c.Parent()))
		for _, other := range c.Parent().Commands() {
			if other != c && other.IsAvailableCommand() {
				names = append(names, Name(other))
			}
		}
	}
	if len(names) == 0 {
		return
	}
	w.section("SEE ALSO")
	for i, name := range names {
		end := ","
		if i == len(names)-1 {
			end = ""
		}
		w.line(".BR %s (1)%s", escape(name), end)
	}
}

// escape escapes characters that roff would interpret.
func escape(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, `\`, `\e`), "\n")
	for i, line := range lines {
		line = strings.ReplaceAll(line, "-", `\-`)
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line // roff would interpret the line as a request
		}
		lines[i] = line
	}
	var ascii strings.Builder
	for _, r := range strings.Join(lines, "\n") {
		if r < utf8.RuneSelf {
			ascii.WriteRune(r)
		} else {
			fmt.Fprintf(&ascii, `\[u%04X]`, r) // roff reads only ASCII
		}
	}
	return ascii.String()
}

// quote returns text as an argument of a roff macro.
func quote(text string) string { return `"` + strings.ReplaceAll(escape(text), `"`, `\(dq`) + `"` }
