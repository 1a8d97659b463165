package manage

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/internal/logins"
)

func (p *program) auditCommand() *cobra.Command {
	f := &cli.ServerFlags{}
	var out output.Format
	var kind, id string
	var all, showFailed bool
	limit := 50
	c := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what, when and from where",
		Long: `Show who changed what, when and from where, the latest change first: changes of rules, clients, overrides,
tokens and webhooks, without secrets; resets of counters; erasures of statistics; deliveries that were sent again; and,
with --all, restored backups. JSON and YAML show each object before and after the change. The command needs a token with the role admin.`,
		Example: `  headgate audit --limit 20
  headgate audit --all --kind token
  headgate audit --kind rule --id search-per-user --output json
  headgate audit --logins`,
		Args: cobra.NoArgs,
	}
	p.AddServerFlags(c, f)
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, _ []string) error {
		query := url.Values{}
		for name, value := range map[string]string{"kind": kind, "id": id} {
			if value != "" {
				query.Set(name, value)
			}
		}
		if all {
			query.Set("namespace", "*")
		}
		list, failed, err := listRevisions(ctx, client, "/v1/audit", query, limit)
		if err != nil {
			return err
		}
		if showFailed {
			return p.showLogins(failed, out)
		}
		rows := [][]string{}
		for i := range list {
			r := &list[i]
			rows = append(rows, []string{
				fmt.Sprint(r.Revision), output.LocalTime(r.Time), output.OrDash(r.Actor), output.OrDash(r.From), r.Namespace,
				r.Action, changesText(r), output.Truncate(r.Note, 40),
			})
		}
		return p.Show(out, list, []string{"REVISION", "TIME", "BY", "FROM", "NAMESPACE", "ACTION", "CHANGED", "NOTE"}, rows)
	})
	flags := c.Flags()
	flags.StringVar(&kind, "kind", "",
		"only changes of a `KIND`: rule, client, override, suspension, token, webhook, or event (a reset, an erasure, a "+
			"restore, a removed node or a delivery that was sent again)")
	flags.StringVar(&id, "id", "", "only changes of the object with this `ID`, with --kind")
	flags.BoolVar(&all, "all", false, "all namespaces that the token has access to")
	flags.BoolVar(&showFailed, "logins", false, "show failed logins instead")
	flags.IntVar(&limit, "limit", limit, "the maximum number to show")
	output.CompleteFlag(c, "kind", "rule", "client", "override", "suspension", "token", "webhook", "event")
	output.AddFlag(c, &out)
	return c
}

var errLoginsHidden = errors.New("failed logins are shown only to tokens with access to all namespaces")

func (p *program) showLogins(failed *logins.Report, out output.Format) error {
	if failed == nil {
		return errLoginsHidden
	}
	rows := [][]string{}
	for _, l := range failed.Recent {
		state := "refused"
		if l.Denied {
			state = "too often"
		}
		rows = append(rows, []string{output.LocalTime(l.Time), output.OrDash(l.From), output.OrDash(l.Listener), state})
	}
	if out == output.Table {
		_, _ = fmt.Fprintf(p.Stderr, "headgate: %d since the rules service started\n", failed.Count)
	}
	return p.Show(out, failed, []string{"TIME", "FROM", "LISTENER", "STATE"}, rows)
}
