package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/remote"
)

func (p *program) nodesCommand() *cobra.Command {
	f := &serverFlags{}
	var out format
	c := &cobra.Command{
		Use:   "nodes",
		Short: "Show the nodes of a rules service, and which revision each has in force",
		Example: `  headgate nodes
  headgate nodes --output json`,
		Args: cobra.NoArgs,
	}
	p.addServer(c, f)
	c.AddCommand(p.deleteNodesCommand(f))
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, _ []string) error {
		list, err := at.Nodes(ctx)
		if err != nil {
			return err
		}
		rows := [][]string{}
		for i := range list {
			n := &list[i]
			state := "ok"
			switch {
			case n.Error != "":
				state = cut(n.Error, 60)
			case n.FromDisk:
				state = "from disk"
			case n.Behind:
				state = "behind"
			}
			rows = append(rows, []string{
				n.ID, dash(n.Region), n.Version, fmt.Sprint(n.Revision), (time.Duration(n.LagMS) * time.Millisecond).String(), n.Store, ago(n.Seen), state, newsOf(n.Fleet), dash(n.Address),
			})
		}
		return p.show(out, list, []string{"NODE", "REGION", "VERSION", "REVISION", "LAG", "STORE", "SEEN", "RULES", "NEWS", "ADDRESS"}, rows)
	})
	formatFlag(c, &out)
	return c
}

func (p *program) deleteNodesCommand(f *serverFlags) *cobra.Command {
	return p.endCommand(f, &cobra.Command{
		Use:   "delete ID...",
		Short: "Show nodes no longer that will not come back",
		Long: `Show nodes no longer that will not come back. Those that are stopped say so themselves, and those that were killed are left out after an
hour without a word. Nothing is done to a node: one that lives is shown again with its next heartbeat.`,
		Example:           `  headgate nodes delete eu-1`,
		ValidArgsFunction: p.completeNodes(f),
	}, "deleted", "node", "/v1/nodes/")
}

// completeNodes completes ids of nodes.
func (p *program) completeNodes(f *serverFlags) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return p.complete(c, f, func(ctx context.Context, at *remote.Client) ([]string, error) {
			list, err := at.Nodes(ctx)
			return begins(list, begun, func(n *control.Node) (id, says string) { return n.ID, "seen " + ago(n.Seen) }), err
		})
	}
}

// newsOf says for each way in which a node shares limits how old its news is, and how many units passed beyond limits before it was
// known.
func newsOf(f *control.FleetFigures) string {
	if f == nil {
		return "-"
	}
	var list []string
	for i := range f.Sync {
		n := &f.Sync[i]
		if !n.Up {
			list = append(list, n.Mode+" down")
			continue
		}
		lag := time.Duration(n.LagMS * float64(time.Millisecond)).Round(time.Millisecond)
		list = append(list, fmt.Sprintf("%s %v, %d over", n.Mode, lag, n.Over))
	}
	return dash(strings.Join(list, "; "))
}
