package tryrules

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/cmd/headgate/internal/rulesfile"
)

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
		results[i] = rulesfile.Lint(name, p.Stdin)
		failed = failed || !results[i].OK
	}
	if out != output.Table {
		if err := p.Show(out, results, nil, nil); err != nil {
			return err
		}
	} else {
		for _, r := range results {
			if r.OK {
				for _, w := range r.Warnings {
					_, _ = fmt.Fprintf(p.Stderr, "%s:%d:%d: warning: %s: %s: want %s\n", r.File, w.Line, w.Column, w.Path, w.Value,
						w.Want)
				}
				p.Printf("%s: ok, %s, %s\n", r.File, output.Plural(r.Rules, "rule"), output.Plural(r.Clients, "client"))
				continue
			}
			_, _ = fmt.Fprintln(p.Stderr, r.Err)
		}
	}
	if failed {
		return cli.ExitError(cli.ExitFailure)
	}
	return nil
}
