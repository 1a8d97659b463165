package manage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/cmd/headgate/internal/top"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/internal/terminal"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

func (p *program) topCommand() *cobra.Command {
	f := &cli.ServerFlags{}
	var format output.Format
	var once bool
	q := top.Query{Order: top.ByDenied, Window: time.Minute}
	order := string(q.Order)
	c := &cobra.Command{
		Use:   "top",
		Short: "Show live which rules and clients are limited most",
		Long: `Show live which rules and clients are limited most, across all nodes of a rules service. Keys: s sorts by
requests or by denials, / filters by text, p pauses, q quits. If the output is not a terminal, the figures are printed
once.`,
		Example: `  headgate top

  # which client is denied most, by which rule?
  headgate top --once
  headgate top --once -o json --window 24h`,
		Args: cobra.NoArgs,
	}
	p.AddServerFlags(c, f)
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, _ []string) error {
		if q.Order = top.Order(order); q.Order != top.ByDenied && q.Order != top.ByRequests {
			return fmt.Errorf("--order %q: want denied or requests", order)
		}
		if once || !terminal.IsCharDevice(p.Stdout) {
			figures, err := top.Fetch(ctx, client, q)
			if err != nil {
				return err
			}
			return p.showTop(format, figures, q.Order)
		}
		if c.Flags().Changed("output") {
			return errors.New("--output requires --once")
		}
		return top.Run(ctx, top.Options{
			Fetch: func(ctx context.Context, q top.Query) (*top.Figures, error) { return top.Fetch(ctx, client, q) },
			Query: q, Server: client.Name(), In: p.Stdin, Out: p.Stdout,
		})
	})
	flags := c.Flags()
	flags.BoolVar(&once, "once", false, "print the figures once and exit")
	cli.AddDurationFlag(flags, &q.Window, "window", "show the last `DURATION`, from 10s to 7d")
	flags.StringVar(&order, "order", order, "sort by `ORDER`: denied or requests")
	flags.StringVar(&q.Rule, "rule", "", "show only the rule `ID`")
	output.CompleteFlag(c, "order", string(top.ByDenied), string(top.ByRequests))
	output.AddFlag(c, &format)
	return c
}

// showTop prints figures once.
func (p *program) showTop(format output.Format, figures *top.Figures, order top.Order) error {
	if format != output.Table {
		return p.Show(format, figures, nil, nil)
	}
	var rows [][]string
	for _, r := range figures.Rates(order, "") { // no filter
		rows = append(rows, []string{
			r.Rule, fmt.Sprintf("%.1f", r.Requests), fmt.Sprintf("%.1f", r.Denied), fmt.Sprintf("%.1f", r.Shadow),
		})
	}
	if err := p.Show(format, nil, []string{"RULE", "REQUESTS/S", "DENIED/S", "SHADOW/S"}, rows); err != nil {
		return err
	}
	if more := figures.Traffic.MoreRules; more > 0 {
		p.Printf("and %s\n", output.Plural(more, "more rule"))
	}
	p.Printf("\n")
	header := []string{"CLIENT", "RULE", "REQUESTS", "ALLOWED", "DENIED"}
	if err := p.Show(format, nil, header, clientRows(figures.SortedClients(order))); err != nil {
		return err
	}
	if len(figures.Stores) > 0 {
		p.Printf("\n")
		if err := p.Show(format, nil, top.StoreHeader, figures.StoreRows()); err != nil {
			return err
		}
	}
	p.Printf("\n")
	return p.Show(format, nil, top.NodeHeader, figures.NodeRows(time.Now()))
}

func clientRows(list []traffic.ClientCount) [][]string {
	var rows [][]string
	for i := range list {
		c, mark := &list[i], ""
		if c.Shadow {
			mark = " shadow"
		}
		rows = append(rows, []string{
			top.ClientText(c.Client), c.Rule, fmt.Sprint(c.Requests), fmt.Sprint(c.Allowed), fmt.Sprint(c.Denied) + mark,
		})
	}
	return rows
}
