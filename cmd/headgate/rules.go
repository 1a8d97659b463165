package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/rules/source"
)

func (p *program) rulesCommand() *cobra.Command {
	f := &serverFlags{}
	c := &cobra.Command{
		Use:   "rules",
		Short: "Check and test rules files, and change the rules of a rules service",
		Long:  `Check and test rules files with lint and test, which need no server, and read and change the rules of a rules service.`,
		Example: `  headgate rules lint rules.yaml
  headgate rules test rules_test.yaml
  headgate rules list
  headgate rules apply -f rules/ --prune --dry-run`,
	}
	p.addServer(c, f)
	c.AddCommand(
		p.lintCommand(), p.testCommand(), p.listCommand(&ruleSort, f), p.getCommand(&ruleSort, f), p.applyCommand(f), p.diffCommand(f),
		p.deleteCommand(&ruleSort, f), p.historyCommand(f), p.rollbackCommand(f),
	)
	return c
}

// A linted is the result of lint for one file.
type linted struct {
	File     string    `json:"file"`
	OK       bool      `json:"ok"`
	Rules    int       `json:"rules"`
	Clients  int       `json:"clients"`
	Problems []problem `json:"problems"`
	More     int       `json:"more,omitempty"`
	// Warnings are about valid rules that may not do what their author intended.
	Warnings []problem `json:"warnings,omitempty"`

	err error
}

// A problem is one error or warning.
type problem struct {
	Path   string `json:"path,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Value  string `json:"value,omitempty"`
	Want   string `json:"want,omitempty"`
}

func (p *program) lintCommand() *cobra.Command {
	var out format
	c := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check rules files and show their errors",
		Long: `Check rules files and show each error with its file, line and column, and the values that are valid.

Each file is checked by itself, as "serve --rules" does. A file named - is standard input.

Lint warns about rules that requests may bypass: with "trailing_slash: exact" and "case: exact", a rule for /login does not cover
/login/ and /LOGIN, which many services treat as the same path.

The exit code is 0 if all files are valid, even with warnings, and else 1.`,
		Example: `  headgate rules lint rules.yaml
  headgate rules lint --output json rules/*.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return p.lint(args, out) },
	}
	formatFlag(c, &out)
	return c
}

func (p *program) lint(names []string, out format) error {
	results := make([]linted, len(names))
	failed := false
	for i, name := range names {
		results[i] = p.lintFile(name)
		failed = failed || !results[i].OK
	}
	if out != formatTable {
		if err := p.show(out, results, nil, nil); err != nil {
			return err
		}
	} else {
		for _, r := range results {
			if r.OK {
				for _, w := range r.Warnings {
					_, _ = fmt.Fprintf(p.stderr, "%s:%d:%d: warning: %s: %s: want %s\n", r.File, w.Line, w.Column, w.Path, w.Value, w.Want)
				}
				p.say("%s: ok, %s, %s\n", r.File, number(r.Rules, "rule"), number(r.Clients, "client"))
				continue
			}
			_, _ = fmt.Fprintln(p.stderr, r.err)
		}
	}
	if failed {
		return exitCodeError(exitError)
	}
	return nil
}

func (p *program) lintFile(name string) linted {
	result := linted{File: name, Problems: []problem{}}
	data, err := p.readAll(name)
	if err == nil {
		result.Rules, result.Clients, result.Warnings, err = lintRules(name, data)
	}
	if err == nil {
		result.OK = true
		return result
	}
	result.err = err
	var found *source.Error
	if !errors.As(err, &found) {
		result.Problems = append(result.Problems, problem{Value: err.Error()})
		return result
	}
	for _, p := range found.Problems {
		result.Problems = append(result.Problems, problem{Path: p.Path, Line: p.Line, Column: p.Column, Value: p.Value, Want: p.Want})
	}
	result.More = found.More
	return result
}

// readAll reads a file, or standard input.
func (p *program) readAll(name string) ([]byte, error) {
	if name != "-" {
		return os.ReadFile(name)
	}
	data, err := io.ReadAll(io.LimitReader(p.stdin, source.MaxJSON+1))
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	return data, nil
}

// lintRules checks rules and returns an error or warnings. It does not check whether a node has the stores that the rules
// need: only the node knows its stores.
func lintRules(name string, data []byte) (ruleCount, clients int, warnings []problem, err error) {
	doc, err := file.Parse(name, data)
	if err != nil {
		return 0, 0, nil, err
	}
	if _, err := doc.Compile(); err != nil {
		return 0, 0, nil, err
	}
	if doubts := rules.Doubts(doc.Rules); len(doubts) > 0 {
		text, err := source.Read(name, data)
		if err != nil {
			return 0, 0, nil, err
		}
		for _, d := range doubts {
			line, column := text.Locate(d.Path)
			warnings = append(warnings, problem{Path: d.Path, Line: line, Column: column, Value: d.Value, Want: d.Want})
		}
	}
	return len(doc.Rules), len(doc.Clients), warnings, nil
}

// loadRules reads and compiles a rules file.
func loadRules(path string) (*match.Set, error) {
	doc, err := file.Load(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("rules: %w", err)
		}
		return nil, err
	}
	return doc.Compile()
}
