package tryrules

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/decision"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
)

func (p *program) explainCommand() *cobra.Command {
	q := &requestFlags{repeat: 1}
	c := &cobra.Command{
		Use:   "explain",
		Short: "Show which rules match a request, and what each would decide",
		Long: `Show which rules match a request, what each of them would decide, and which one is tightest. Nothing is
consumed.

With --rules FILE the rules of the file apply. Counters are in memory and start empty, or with --store those in Redis.
Without --rules, the command asks the rules service, which has the rules in force, registered clients, overrides and
counters.` + attributesHelp + `

The exit code is 0 if the request would pass, 3 if it would be denied, and 1 on an error.`,
		Example: `  # with the rules in force
  headgate explain --set user=alice --set path=/search

  # with the rules of a file
  headgate explain --rules rules.yaml --set host=api.example.com --set path=/v1/orders`,
		Args: cobra.NoArgs,
	}
	q.add(p, c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		return p.decideRequest(c, q, p.explain, func(x *decision.Explanation) error { return p.showExplanation(q, x) })
	}
	return c
}

func (p *program) explain(ctx context.Context, e *engine.Engine, subject rules.Subject, q *requestFlags) error {
	x, err := e.ExplainWith(ctx, subject, q.options)
	if err != nil {
		return err
	}
	return p.showExplanation(q, decision.NewExplanation(x))
}

// showExplanation prints an explanation. It returns an ExitError if the request is denied.
func (p *program) showExplanation(q *requestFlags, x *decision.Explanation) error {
	if q.out != output.Table {
		if err := p.Show(q.out, x, nil, nil); err != nil {
			return err
		}
	} else if err := p.printExplanation(x); err != nil {
		return err
	}
	if !x.Verdict.Passed {
		return cli.ExitError(cli.ExitDenied)
	}
	return nil
}

func (p *program) printExplanation(x *decision.Explanation) error {
	if len(x.Rules) == 0 {
		p.Printf("No rule matches: the request passes.\n")
		return nil
	}
	header, rows := x.Table()
	if err := p.Show(output.Table, nil, header, rows); err != nil {
		return err
	}
	p.Printf("\nDecision: %s", x.Verdict.Verdict)
	if x.Verdict.Rule != "" {
		p.Printf(" by %s", x.Verdict.Rule)
	}
	p.Printf("\n")
	return nil
}
