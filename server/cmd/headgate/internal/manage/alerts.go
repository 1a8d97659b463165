package manage

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control/alerts"
	"github.com/headgate/headgate/server/control/remote"
)

// errFiring is the error of "headgate alerts --check" if alerts are firing. They are listed before it.
var errFiring = errors.New("alerts are firing")

func (p *program) alertsCommand() *cobra.Command {
	f := &cli.ServerFlags{}
	var out output.Format
	var all, check bool
	c := &cobra.Command{
		Use:   "alerts",
		Short: "Show what needs attention: failing open, silent nodes, slow stores and more",
		Long: `Show the alerts that fire, are about to fire (pending) or are about to be resolved (resolving). The rules service
evaluates them every 5 seconds from what its nodes report; it needs no Prometheus. Webhooks with the event "alert" are
notified when an alert fires or resolves.`,
		Example: `  headgate alerts
  headgate alerts --all --output json
  headgate alerts --check || page-someone
  headgate webhooks create --id pager --url https://hooks.example.com/headgate --events alert`,
		Args: cobra.NoArgs,
	}
	p.AddServerFlags(c, f)
	c.Flags().BoolVar(&all, "all", false, "also show alerts that were resolved in the last 24 hours")
	c.Flags().BoolVar(&check, "check", false, "fail if an alert fires")
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, _ []string) error {
		var list alerts.Listing
		if err := client.Do(ctx, http.MethodGet, "/v1/alerts", nil, nil, &list); err != nil {
			return err
		}
		if !all {
			list.Alerts = slices.DeleteFunc(list.Alerts, func(a alerts.Alert) bool { return a.State == alerts.Resolved })
		}
		rows := [][]string{}
		for i := range list.Alerts {
			a := &list.Alerts[i]
			rows = append(rows, []string{
				string(a.State), string(a.Severity), a.Condition, a.Subject, output.RelativeTime(a.Since),
				output.OrDash(strings.Join(a.Nodes, ",")), a.Summary, a.Runbook,
			})
		}
		if out == output.Table && len(rows) == 0 {
			p.Printf("no alerts\n")
			return nil
		}
		header := []string{"STATE", "SEVERITY", "CONDITION", "SUBJECT", "SINCE", "NODES", "SUMMARY", "RUNBOOK"}
		err := p.Show(out, list, header, rows)
		if err == nil && check && list.Firing > 0 {
			return errFiring
		}
		return err
	})
	output.AddFlag(c, &out)
	return c
}
