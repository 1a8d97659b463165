package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/cmd/headgate/internal/rulesfile"
)

func (p *program) rulesCommand() *cobra.Command {
	f := &serverFlags{}
	c := &cobra.Command{
		Use:   "rules",
		Short: "Check and test rules files, and change the rules of a rules service",
		Long: `Check and test rules files with lint, test and whatif, which need no server, and read and change the rules of a
rules service.`,
		Example: `  headgate rules lint rules.yaml
  headgate rules test rules_test.yaml
  headgate rules list
  headgate rules apply -f rules/ --prune --dry-run`,
	}
	p.addServerFlags(c, f)
	c.AddCommand(
		p.lintCommand(), p.testCommand(), p.whatIfCommand(f), p.listCommand(&ruleResource, f), p.getCommand(&ruleResource, f), p.applyCommand(f),
		p.diffCommand(f),
		p.deleteCommand(&ruleResource, f), p.historyCommand(f), p.rollbackCommand(f),
	)
	return c
}

func (p *program) lintCommand() *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check rules files and show their errors",
		Long: `Check rules files and show each error with its file, line and column, and the values that are valid.

Each file is checked by itself, as "serve --rules" does. A file named - is standard input.

Lint warns about rules that requests may bypass: with "trailing_slash: exact" and "case: exact", a rule for /login
does not cover /login/ and /LOGIN, which many services treat as the same path.

The exit code is 0 if all files are valid, even with warnings, and else 1.`,
		Example: `  headgate rules lint rules.yaml
  headgate rules lint --output json rules/*.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return p.lint(args, out) },
	}
	output.AddFlag(c, &out)
	return c
}

func (p *program) lint(names []string, out output.Format) error {
	results := make([]rulesfile.LintResult, len(names))
	failed := false
	for i, name := range names {
		results[i] = rulesfile.Lint(name, p.stdin)
		failed = failed || !results[i].OK
	}
	if out != output.Table {
		if err := p.show(out, results, nil, nil); err != nil {
			return err
		}
	} else {
		for _, r := range results {
			if r.OK {
				for _, w := range r.Warnings {
					_, _ = fmt.Fprintf(p.stderr, "%s:%d:%d: warning: %s: %s: want %s\n", r.File, w.Line, w.Column, w.Path, w.Value,
						w.Want)
				}
				p.printf("%s: ok, %s, %s\n", r.File, output.Plural(r.Rules, "rule"), output.Plural(r.Clients, "client"))
				continue
			}
			_, _ = fmt.Fprintln(p.stderr, r.Err)
		}
	}
	if failed {
		return exitCodeError(exitError)
	}
	return nil
}
