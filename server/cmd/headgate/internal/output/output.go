// Package output writes the results of commands: tables for people, JSON and YAML for programs.
package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/rules/file/source"
)

// A Format is the value of --output.
type Format string

// The formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// AddFlag adds --output to a command. The default is the value of f, or Table if it is empty.
func AddFlag(c *cobra.Command, f *Format) {
	if *f == "" {
		*f = Table
	}
	c.Flags().VarP(f, "output", "o", "table, json or yaml")
	CompleteFlag(c, "output", string(Table), string(JSON), string(YAML))
}

// CompleteFlag sets the values that shells complete for a flag. The command must have the flag.
func CompleteFlag(c *cobra.Command, name string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// String implements pflag.Value.
func (f *Format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *Format) Type() string { return "FORMAT" }

// Set implements pflag.Value. "text" is an alias of "table".
func (f *Format) Set(text string) error {
	switch Format(text) {
	case Table, JSON, YAML:
		*f = Format(text)
	case "text":
		*f = Table
	default:
		return errors.New("want table, json or yaml")
	}
	return nil
}

// Write writes value as JSON or YAML, or rows as a table.
func Write(w io.Writer, f Format, value any, header []string, rows [][]string) error {
	if f == Table {
		return WriteTable(w, header, rows)
	}
	var data bytes.Buffer
	e := json.NewEncoder(&data)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	return WriteData(w, f, data.Bytes())
}

// WriteData writes JSON data as indented JSON or as YAML. f must not be Table.
func WriteData(w io.Writer, f Format, data []byte) error {
	text, err := Reformat(f, data)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// Reformat converts JSON data to indented JSON or to YAML. f must not be Table.
func Reformat(f Format, data []byte) ([]byte, error) {
	switch f {
	case JSON:
		var b bytes.Buffer
		if err := json.Indent(&b, bytes.TrimSpace(data), "", "  "); err != nil {
			return nil, err
		}
		b.WriteByte('\n')
		return b.Bytes(), nil
	case YAML:
		parsed, err := source.Read("response.json", data)
		if err != nil {
			return nil, err
		}
		return source.YAML(parsed.Root), nil
	default:
		return nil, fmt.Errorf("output: format %q: want json or yaml", f)
	}
}

// WriteTable writes rows in aligned columns, or "none" if there are no rows.
func WriteTable(w io.Writer, header []string, rows [][]string) error {
	if len(rows) == 0 {
		_, err := io.WriteString(w, "none\n")
		return err
	}
	var text bytes.Buffer
	tabs := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		for _, cell := range row {
			_, _ = fmt.Fprint(tabs, Sanitize(cell), "\t") // a buffer returns no error
		}
		_, _ = fmt.Fprintln(tabs)
	}
	if err := tabs.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}
