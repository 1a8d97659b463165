package manage

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control/nodequery"
	"github.com/headgate/headgate/server/control/remote"
)

// location returns the node or the shared store that has a counter.
func location(c *nodequery.Counter) string {
	if c.Counters != "" {
		return "shared: " + c.Counters
	}
	return output.OrDash(c.Node)
}

// reportNodes prints the nodes that were not queried because they send no heartbeats. It returns failures of other
// nodes as an error.
func (p *program) reportNodes(nodes []nodequery.NodeStatus, failures string) error {
	for _, n := range nodes {
		if n.State == "silent" {
			_, _ = fmt.Fprintf(p.Stderr, "headgate: node %s: %s\n", n.ID, n.Error)
		}
	}
	if failures != "" {
		return errors.New(failures)
	}
	return nil
}

// attributesQuery returns the query parameters of arguments such as user=acme.
func attributesQuery(args []string) (url.Values, error) {
	attributes, err := cli.ParseAttributes(args)
	query := url.Values{}
	for name, value := range attributes {
		query.Set(name, value)
	}
	return query, err
}

// shownAttributes returns arguments such as user=acme for a message. It shows only the first characters of values that
// may be secret, because logs of scripts keep messages.
func shownAttributes(args []string) string {
	const shown, long = 4, 16
	list := make([]string, len(args))
	for i, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		if list[i] = arg; nodequery.MayBeSecret(name) {
			list[i] = name + "=…"
			if len(value) >= long {
				list[i] = name + "=" + strings.ToValidUTF8(value[:shown], "") + "…"
			}
		}
	}
	return strings.Join(list, " ")
}

func (p *program) keysCommand() *cobra.Command {
	f := &cli.ServerFlags{}
	c := &cobra.Command{
		Use:   "keys",
		Short: "Show what remains for a client, or reset its counters",
		Long: `Show what remains for a client, or reset its counters, on all nodes of a namespace. The rules service queries
each node that counts in its own memory, and one of the nodes that share a store.

The exit code is 0 on success and 1 on an error, such as a node or a store that does not respond. Results of the other
nodes are shown even then.`,
		Example: `  headgate keys get user=acme
  headgate keys reset user=acme --rule search-per-user`,
	}
	p.AddServerFlags(c, f)
	c.AddCommand(p.getKeysCommand(f), p.resetKeysCommand(f))
	return c
}

func (p *program) getKeysCommand(f *cli.ServerFlags) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:   "get ATTRIBUTE=VALUE...",
		Short: "Show what remains for a client under each rule that counts it",
		Example: `  headgate keys get user=acme
  headgate keys get user=acme ip=203.0.113.9 --output json`,
		Args: cobra.MinimumNArgs(1),
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		query, err := attributesQuery(args)
		if err != nil {
			return err
		}
		var response nodequery.Counters
		if err := client.Do(ctx, "GET", "/v1/keys", query, nil, &response); err != nil {
			return err
		}
		rows := [][]string{}
		for i := range response.Keys {
			k := &response.Keys[i]
			if len(k.Limits) == 0 {
				rows = append(rows, []string{k.ID, k.Effect, "-", "-", location(k), output.OrDash(k.Client)})
			}
			for _, l := range k.Limits {
				remaining, reset := "unknown", "unknown"
				if l.Remaining != nil && l.ResetAfterMS != nil {
					remaining, reset = fmt.Sprintf("%d of %d", *l.Remaining, l.Capacity), output.InMillis(*l.ResetAfterMS)
				}
				rows = append(rows, []string{k.ID, l.Limit, remaining, reset, location(k), output.OrDash(k.Client)})
			}
		}
		if err := p.Show(out, response, []string{"RULE", "LIMIT", "LEFT", "FULL", "NODE", "CLIENT"}, rows); err != nil {
			return err
		}
		return p.reportNodes(response.Nodes, response.Error)
	})
	output.AddFlag(c, &out)
	return c
}

func (p *program) resetKeysCommand(f *cli.ServerFlags) *cobra.Command {
	var rule string
	var out output.Format
	c := &cobra.Command{
		Use:   "reset ATTRIBUTE=VALUE...",
		Short: "Reset the counters of a client",
		Example: `  headgate keys reset user=acme
  headgate keys reset user=acme --rule search-per-user`,
		Args: cobra.MinimumNArgs(1),
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		attributes, err := cli.ParseAttributes(args)
		if err != nil {
			return err
		}
		request := map[string]any{"attributes": attributes}
		if rule != "" {
			request["rule"] = rule
		}
		var response nodequery.ResetReport
		if err := client.Do(ctx, "POST", "/v1/keys:reset", nil, request, &response); err != nil {
			return err
		}
		err = p.ShowOrPrint(out, response, "reset %s under %s\n", shownAttributes(args), strings.Join(response.Reset, ", "))
		if err != nil {
			return err
		}
		return p.reportNodes(response.Nodes, response.Error)
	})
	output.AddFlag(c, &out)
	c.Flags().StringVar(&rule, "rule", "", "`ID` of the rule (default all rules whose key identifies the client)")
	cli.AddNoteFlag(c, f)
	_ = c.RegisterFlagCompletionFunc("rule", p.completeIDs(&ruleKind, f)) // the flag exists
	return c
}
