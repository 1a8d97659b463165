package manage

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
)

func (p *program) nodesCommand() *cobra.Command {
	f := &cli.ServerFlags{}
	var out output.Format
	c := &cobra.Command{
		Use:   "nodes",
		Short: "Show the nodes of a rules service, and which revision each has in force",
		Example: `  headgate nodes
  headgate nodes --output json`,
		Args: cobra.NoArgs,
	}
	p.AddServerFlags(c, f)
	c.AddCommand(p.deleteNodesCommand(f))
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, _ []string) error {
		list, err := client.Nodes(ctx)
		if err != nil {
			return err
		}
		rows := [][]string{}
		for i := range list {
			n := &list[i]
			state := "ok"
			switch {
			case n.Error != "":
				state = output.Truncate(n.Error, 60)
			case n.FromDisk:
				state = "from disk"
			case n.Behind:
				state = "behind"
			}
			rows = append(rows, []string{
				n.ID, output.OrDash(n.Region), n.Version, fmt.Sprint(n.Revision),
				(time.Duration(n.LagMS) * time.Millisecond).String(),
				n.Store, output.RelativeTime(n.Seen), state, syncText(n.Fleet), output.OrDash(n.Address),
			})
		}
		return p.Show(out, list, []string{
			"NODE", "REGION", "VERSION", "REVISION", "LAG", "STORE", "SEEN", "RULES", "SYNC",
			"ADDRESS",
		}, rows)
	})
	output.AddFlag(c, &out)
	return c
}

func (p *program) deleteNodesCommand(f *cli.ServerFlags) *cobra.Command {
	return p.deleteByIDCommand(f, &cobra.Command{
		Use:   "delete ID...",
		Short: "Remove stopped nodes from the list",
		Long: `Remove stopped nodes from the list. Nodes that stop normally are removed immediately, and nodes without a
heartbeat are removed after an hour. The command does not affect the nodes: a running node is listed again after its
next heartbeat.`,
		Example:           `  headgate nodes delete eu-1`,
		ValidArgsFunction: p.completeNodes(f),
	}, "deleted", "node", "/v1/nodes/")
}

// completeNodes returns a function that completes IDs of nodes.
func (p *program) completeNodes(f *cli.ServerFlags) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return p.CompleteFromService(c, f, func(ctx context.Context, client *remote.Client) ([]string, error) {
			list, err := client.Nodes(ctx)
			return cli.CompleteByPrefix(list, prefix,
				func(n *control.Node) (id, description string) { return n.ID, "seen " + output.RelativeTime(n.Seen) }), err
		})
	}
}

// syncText returns the lag of updates and the over-admission of each mode in which a node shares limits.
func syncText(f *control.FleetStats) string {
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
		list = append(list, fmt.Sprintf("%s %v, %d over", n.Mode, lag, n.ExcessUnits))
	}
	return output.OrDash(strings.Join(list, "; "))
}
