// Package reference generates the pages of docs/reference in Markdown, from the code that defines the commands, the
// fields of rules, the APIs and the errors.
package reference

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Commands returns the reference page about a command and all its subcommands.
func Commands(root *cobra.Command) []byte {
	var b bytes.Buffer
	b.WriteString("# Commands\n\n" + "`" + root.Name() + " COMMAND --help` shows the same, and `man " + root.Name() + "-COMMAND` too.\n")
	writeCommand(&b, root)
	return b.Bytes()
}

func writeCommand(b *bytes.Buffer, c *cobra.Command) {
	if c.HasParent() && !c.IsAvailableCommand() {
		return
	}
	c.InitDefaultHelpFlag()
	fmt.Fprintf(b, "\n## %s\n\n", c.CommandPath())
	writeBlock(b, "", c.UseLine())
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	writeText(b, text)
	if c.HasAvailableSubCommands() {
		b.WriteString("| command | |\n|---|---|\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				anchor := strings.ReplaceAll(sub.CommandPath(), " ", "-")
				fmt.Fprintf(b, "| [%s](#%s) | %s |\n", sub.CommandPath(), anchor, cell(sub.Short))
			}
		}
		b.WriteByte('\n')
	}
	if c.Example != "" {
		writeBlock(b, "sh", unindent(c.Example))
	}
	writeFlags(b, c.NonInheritedFlags())
	for _, sub := range c.Commands() {
		writeCommand(b, sub)
	}
}

func writeFlags(b *bytes.Buffer, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	b.WriteString("| flag | default | meaning |\n|---|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "`--" + f.Name + "`"
		if value != "" {
			name = "`--" + f.Name + " " + cell(value) + "`"
		}
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		standard := ""
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" && f.DefValue != "0s" {
			standard = "`" + cell(f.DefValue) + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, standard, escape(cell(usage)))
	})
	b.WriteByte('\n')
}

// writeText writes the text of a help page, which has paragraphs and indented blocks.
func writeText(b *bytes.Buffer, text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(paragraph, "  ") {
			writeBlock(b, "", unindent(paragraph))
			continue
		}
		b.WriteString(escape(paragraph) + "\n\n")
	}
}

func writeBlock(b *bytes.Buffer, language, text string) {
	fmt.Fprintf(b, "```%s\n%s\n```\n\n", language, strings.TrimRight(text, "\n"))
}

// unindent removes the two spaces at the beginning of each line.
func unindent(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n  ", "\n"), "  ")
}

// cell escapes text for a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// escape escapes characters of text that Markdown would interpret.
func escape(text string) string {
	return strings.NewReplacer("*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`).Replace(text)
}
