package manage

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control/nodequery"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

func (p *program) decisionsCommand(f *cli.ServerFlags) *cobra.Command {
	var out output.Format
	var rule string
	var denied bool
	var limit int
	c := &cobra.Command{
		Use:   "decisions [ATTRIBUTE=VALUE...]",
		Short: "Show the last decisions for all clients, or for one",
		Long: `Show the last decisions of all nodes, the latest first. Attributes select a client. Values that may be secret
are hashed before they are compared. A node remembers its last decisions, and separately its last denials. While it has
many requests, it remembers only a random sample of them; the column SAMPLE shows which share.

The exit code is 0 on success and 1 on an error, such as a node that does not respond. Decisions of the other nodes are
shown even then.`,
		Example: `  headgate traffic decisions user=noisy
  headgate traffic decisions user=noisy --denied
  headgate traffic decisions --rule search-per-user -o json`,
	}
	c.Flags().StringVar(&rule, "rule", "", "only the rule with this `ID`")
	c.Flags().BoolVar(&denied, "denied", false, "only denials, and requests that a shadow rule would have denied")
	c.Flags().IntVar(&limit, "limit", 20, "show at most `N` decisions, 1 to 500")
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		query, err := attributesQuery(args)
		if err != nil {
			return err
		}
		query.Set("limit", strconv.Itoa(limit))
		if rule != "" {
			query.Set("rule", rule)
		}
		if denied {
			query.Set("denied", "true")
		}
		var found struct {
			Decisions []traffic.Decision     `json:"decisions"`
			Nodes     []nodequery.NodeStatus `json:"nodes"`
			Error     string                 `json:"error,omitempty"`
		}
		if err := client.Do(ctx, http.MethodGet, "/v1/traffic/decisions", query, nil, &found); err != nil {
			return err
		}
		rows := make([][]string, len(found.Decisions))
		for i := range found.Decisions {
			rows[i] = decisionRow(&found.Decisions[i])
		}
		head := []string{"TIME", "NODE", "CLIENT", "RULE", "VERDICT", "LIMIT", "REMAINING", "RETRY AFTER", "SAMPLE"}
		if err := p.Show(out, found, head, rows); err != nil {
			return err
		}
		return p.reportNodes(found.Nodes, found.Error)
	})
	output.AddFlag(c, &out)
	return c
}

func decisionRow(d *traffic.Decision) []string {
	verdict := d.Verdict
	if d.Degraded {
		verdict += ", degraded"
	}
	retry, sample := "-", "all"
	switch {
	case d.RetryAfterMS < 0:
		retry = "never"
	case d.RetryAfterMS > 0:
		retry = (time.Duration(d.RetryAfterMS) * time.Millisecond).String()
	}
	if d.OneIn > 1 {
		sample = "1 in " + strconv.FormatUint(uint64(d.OneIn), 10)
	}
	return []string{
		output.LocalTime(d.Time), d.Node, output.OrDash(output.FormatAttributes(d.Client.Attributes())), d.Rule, verdict,
		output.OrDash(d.Limit), strconv.FormatInt(d.Remaining, 10), retry, sample,
	}
}
