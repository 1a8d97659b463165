package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/control/remote"
)

func (p *program) auditCommand() *cobra.Command {
	f := &serverFlags{}
	var out format
	var kind, id string
	var all, logins bool
	most := 50
	c := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what, when and from where",
		Long: `Show who changed what, when and from where, the latest first: rules, clients, overrides, tokens and webhooks, without secrets, counters that were reset and backups that were restored (--all). JSON and YAML
have what each was before and after. It needs a token of the role admin.`,
		Example: `  headgate audit --limit 20
  headgate audit --all --kind token
  headgate audit --kind rule --id search-per-user --output json
  headgate audit --logins`,
		Args: cobra.NoArgs,
	}
	p.addServer(c, f)
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, _ []string) error {
		query := url.Values{}
		for name, value := range map[string]string{"kind": kind, "id": id} {
			if value != "" {
				query.Set(name, value)
			}
		}
		if all {
			query.Set("namespace", "*")
		}
		list, failed, err := changesOf(ctx, at, "/v1/audit", query, most)
		if err != nil {
			return err
		}
		if logins {
			return p.showLogins(failed, out)
		}
		rows := [][]string{}
		for i := range list {
			r := &list[i]
			rows = append(rows, []string{
				fmt.Sprint(r.Revision), clock(r.Time), dash(r.Actor), dash(r.From), r.Namespace, r.Action, r.touched(), cut(r.Note, 40),
			})
		}
		return p.show(out, list, []string{"REVISION", "TIME", "BY", "FROM", "NAMESPACE", "ACTION", "CHANGED", "NOTE"}, rows)
	})
	flags := c.Flags()
	flags.StringVar(&kind, "kind", "", "only changes of a `KIND`: rule, client, override, token, webhook or event: a reset, a restore, a node that was removed")
	flags.StringVar(&id, "id", "", "only changes of one, with --kind")
	flags.BoolVar(&all, "all", false, "of all namespaces that the token is for")
	flags.BoolVar(&logins, "logins", false, "the logins that failed, instead")
	flags.IntVar(&most, "limit", most, "the most to show")
	_ = c.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{"rule", "client", "override", "token", "webhook", "event"}, cobra.ShellCompDirectiveNoFileComp))
	formatFlag(c, &out)
	return c
}

// errNotTold is for tokens that are for some namespaces only.
var errNotTold = errors.New("the logins that failed are told to tokens that are for all namespaces")

// showLogins shows who failed to log in.
func (p *program) showLogins(failed *failedLogins, out format) error {
	if failed == nil {
		return errNotTold
	}
	rows := [][]string{}
	for _, l := range failed.Recent {
		state := "refused"
		if l.Denied {
			state = "too often"
		}
		rows = append(rows, []string{clock(l.Time), dash(l.From), dash(l.Listener), state})
	}
	if out == formatTable {
		_, _ = fmt.Fprintf(p.stderr, "headgate: %d since the rules service was started\n", failed.Count)
	}
	return p.show(out, failed, []string{"TIME", "FROM", "LISTENER", "STATE"}, rows)
}
