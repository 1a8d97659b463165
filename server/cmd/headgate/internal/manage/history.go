package manage

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/internal/logins"
)

// changesText lists the changed objects of a revision. It shows as many as fit into a column, and the number of the
// others.
func changesText(r *edit.Revision) string {
	const width = 60
	changes := r.Changes
	if len(changes) == 0 {
		changes = r.Diff
	}
	text := ""
	for i, c := range changes {
		part := fmt.Sprintf("%s %s %s", c.Action, c.Kind, c.ID)
		if c.Kind == control.KindEvent {
			part = describeEvent(c.ID, c.After)
		}
		if i > 0 && len(text)+len(part) > width {
			return fmt.Sprintf("%s and %d more", text, r.Count-i)
		}
		if i > 0 {
			text += ", "
		}
		text += output.Truncate(part, width)
	}
	return text
}

// describeEvent describes an event of the audit log by its ID and its body, or returns the ID of an unknown event.
func describeEvent(id string, after json.RawMessage) string {
	var e struct {
		Node               string
		Client             map[string]string
		Rules              []string
		More               int
		Revision, Replaced int64
		Attributes         string
		Entries            int
		Webhook            string
		Delivery           int64
		Error              string
	}
	if err := json.Unmarshal(after, &e); err != nil {
		return string(after)
	}
	switch id {
	case "nodes.delete":
		return "removed node " + e.Node
	case "restore":
		return fmt.Sprintf("revision %d replaced by a backup of revision %d", e.Replaced, e.Revision)
	case "webhooks.retry":
		return fmt.Sprintf("sent delivery %d of webhook %s again", e.Delivery, e.Webhook)
	case "traffic.erase":
		return "erased " + output.Plural(e.Entries, "record") + " of a client, selected by " + e.Attributes
	case "keys.reset":
	default:
		return id
	}
	text := "reset " + output.FormatAttributes(e.Client) + " under " + output.OrDash(strings.Join(e.Rules, ", "))
	if e.More > 0 {
		text += fmt.Sprintf(" and %d more", e.More)
	}
	if e.Error != "" {
		text += "; " + e.Error
	}
	return text
}

// listRevisions returns up to limit changes of the history or of the audit log, depending on path. From the audit log,
// it also returns the failed logins.
func listRevisions(
	ctx context.Context, client *remote.Client, path string, query url.Values, limit int,
) (list []edit.Revision, failed *logins.Report, err error) {
	list = []edit.Revision{}
	for {
		query.Set("limit", strconv.Itoa(min(100, max(1, limit-len(list)))))
		var page struct {
			Revisions []edit.Revision `json:"revisions"`
			Audit     []edit.Revision `json:"audit"`
			Next      string          `json:"next"`
			Logins    *logins.Report  `json:"failed_logins"`
		}
		if err := client.Do(ctx, "GET", path, query, nil, &page); err != nil {
			return nil, nil, err
		}
		list = append(append(list, page.Revisions...), page.Audit...)
		if page.Next == "" || len(list) >= limit {
			return list, page.Logins, nil
		}
		query.Set("cursor", page.Next)
	}
}

// completeRevisions returns a function that completes revision numbers, the latest first.
func (p *program) completeRevisions(f *cli.ServerFlags) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, directive := p.CompleteFromService(c, f, func(ctx context.Context, client *remote.Client) ([]string, error) {
			list, _, err := listRevisions(ctx, client, "/v1/revisions", url.Values{}, 100)
			return cli.CompleteByPrefix(list, prefix, func(r *edit.Revision) (id, description string) {
				return strconv.FormatInt(r.Revision, 10), output.RelativeTime(r.Time) + ": " + changesText(r)
			}), err
		})
		return found, directive | cobra.ShellCompDirectiveKeepOrder
	}
}

func (p *program) historyCommand(f *cli.ServerFlags) *cobra.Command {
	var out output.Format
	limit := 20
	c := &cobra.Command{
		Use:   "history [ID | REVISION]",
		Short: "Show the changes of a namespace",
		Long: `Show who changed what in a namespace and when, the latest change first: all changes, or those of one rule.
With the number of a revision, show the changes of that revision.`,
		Example: `  headgate rules history
  headgate rules history search-per-user
  headgate rules history 42`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: p.completeIDs(&ruleKind, f),
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		query := url.Values{}
		if len(args) == 1 {
			if n, err := strconv.ParseInt(args[0], 10, 64); err == nil {
				return p.showRevision(ctx, client, n, out)
			}
			query.Set("kind", "rule")
			query.Set("id", args[0])
		}
		list, _, err := listRevisions(ctx, client, "/v1/revisions", query, limit)
		if err != nil {
			return err
		}
		rows := [][]string{}
		for i := range list {
			r := &list[i]
			rows = append(rows, []string{
				fmt.Sprint(r.Revision), output.RelativeTime(r.Time), output.OrDash(r.Actor), r.Action,
				changesText(r), output.Truncate(r.Note, 40),
			})
		}
		return p.Show(out, list, []string{"REVISION", "WHEN", "BY", "ACTION", "CHANGED", "NOTE"}, rows)
	})
	c.Flags().IntVar(&limit, "limit", limit, "the maximum number to show")
	output.AddFlag(c, &out)
	return c
}

func (p *program) showRevision(ctx context.Context, client *remote.Client, n int64, out output.Format) error {
	var raw json.RawMessage
	if err := client.Do(ctx, "GET", fmt.Sprintf("/v1/revisions/%d", n), nil, nil, &raw); err != nil {
		return err
	}
	if out != output.Table {
		return output.WriteData(p.Stdout, out, raw)
	}
	var r edit.Revision
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	p.Printf("revision %d, %s (%s) by %s: %s\n", r.Revision, output.LocalTime(r.Time), output.RelativeTime(r.Time),
		output.OrDash(r.Actor), r.Action)
	if r.Note != "" {
		p.Printf("note: %s\n", output.Sanitize(r.Note))
	}
	p.printDiff(r.Diff)
	return nil
}

func (p *program) rollbackCommand(f *cli.ServerFlags) *cobra.Command {
	var all, dryRun bool
	var out output.Format
	c := &cobra.Command{
		Use:   "rollback REVISION",
		Short: "Restore the rules of an earlier revision",
		Long: `Restore the rules of a namespace as of an earlier revision. This creates a new revision. With --all, also
restore clients and overrides.`,
		Example: `  headgate rules rollback 41 --dry-run
  headgate rules rollback 41`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeRevisions(f),
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		n, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%q: want the number of a revision, as listed by \"headgate rules history\"", args[0])
		}
		query := url.Values{"all": {strconv.FormatBool(all)}, "dry_run": {strconv.FormatBool(dryRun)}}
		applied := &edit.Result{}
		if err := client.Do(ctx, "POST", fmt.Sprintf("/v1/revisions/%d:rollback", n), query, nil, applied); err != nil {
			return err
		}
		return p.showApplied(applied, out, dryRun)
	})
	c.Flags().BoolVar(&all, "all", false, "restore clients and overrides too")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change, and change nothing")
	cli.AddNoteFlag(c, f)
	output.AddFlag(c, &out)
	return c
}
