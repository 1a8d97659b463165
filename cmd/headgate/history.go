package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/control/remote"
)

// A revision is a change that was made.
type revision struct {
	Revision  int64         `json:"revision"`
	Namespace string        `json:"namespace"`
	Time      time.Time     `json:"time"`
	Actor     string        `json:"actor"`
	From      string        `json:"from,omitempty"`
	Action    string        `json:"action"`
	Note      string        `json:"note,omitempty"`
	Count     int           `json:"count"`
	Changes   []remote.Diff `json:"changes,omitempty"`
	Diff      []remote.Diff `json:"diff,omitempty"`
}

// touched says which objects it changed.
func (r *revision) touched() string {
	var parts []string
	changes := r.Changes
	if len(changes) == 0 {
		changes = r.Diff
	}
	for i, c := range changes {
		if i == 3 {
			parts = append(parts, fmt.Sprintf("and %d more", r.Count-3))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %s %s", c.Action, c.Kind, c.ID))
	}
	return strings.Join(parts, ", ")
}

// failedLogins are those that the audit tells of.
type failedLogins struct {
	Count  int64 `json:"count"`
	Recent []struct {
		Time   time.Time `json:"time"`
		From   string    `json:"from"`
		Denied bool      `json:"denied,omitempty"`
	} `json:"recent"`
}

// changesOf returns so many changes at most, of the history or of the audit, which tells of logins, too.
func changesOf(ctx context.Context, at *remote.Client, path string, query url.Values, most int) (list []revision, logins *failedLogins, err error) {
	list = []revision{}
	for {
		query.Set("limit", strconv.Itoa(min(100, max(1, most-len(list)))))
		var page struct {
			Revisions []revision    `json:"revisions"`
			Audit     []revision    `json:"audit"`
			Next      string        `json:"next"`
			Logins    *failedLogins `json:"failed_logins"`
		}
		if err := at.Do(ctx, "GET", path, query, nil, &page); err != nil {
			return nil, nil, err
		}
		list = append(append(list, page.Revisions...), page.Audit...)
		if page.Next == "" || len(list) >= most {
			return list, page.Logins, nil
		}
		query.Set("cursor", page.Next)
	}
}

func (p *program) historyCommand(f *serverFlags) *cobra.Command {
	var out format
	most := 20
	c := &cobra.Command{
		Use:   "history [ID | REVISION]",
		Short: "Show what was changed, when and by whom",
		Long: `Show what was changed in a namespace, when and by whom, the latest first: all of it, or of one rule. For the number of a
revision, show what it changed.`,
		Example: `  headgate rules history
  headgate rules history search-per-user
  headgate rules history 42`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: p.completeIDs(&ruleSort, f),
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, args []string) error {
		query := url.Values{}
		if len(args) == 1 {
			if n, err := strconv.ParseInt(args[0], 10, 64); err == nil {
				return p.showRevision(ctx, at, n, out)
			}
			query.Set("kind", "rule")
			query.Set("id", args[0])
		}
		list, _, err := changesOf(ctx, at, "/v1/revisions", query, most)
		if err != nil {
			return err
		}
		rows := [][]string{}
		for i := range list {
			r := &list[i]
			rows = append(rows, []string{fmt.Sprint(r.Revision), ago(r.Time), dash(r.Actor), r.Action, cut(r.touched(), 70), r.Note})
		}
		return p.show(out, list, []string{"REVISION", "WHEN", "BY", "ACTION", "CHANGED", "NOTE"}, rows)
	})
	c.Flags().IntVar(&most, "limit", most, "the most to show")
	formatFlag(c, &out)
	return c
}

func (p *program) showRevision(ctx context.Context, at *remote.Client, n int64, out format) error {
	var raw json.RawMessage
	if err := at.Do(ctx, "GET", fmt.Sprintf("/v1/revisions/%d", n), nil, nil, &raw); err != nil {
		return err
	}
	if out != formatTable {
		text, err := written(out, raw)
		if err != nil {
			return err
		}
		_, err = p.stdout.Write(text)
		return err
	}
	var r revision
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	p.say("revision %d, %s by %s: %s %s\n", r.Revision, r.Time.Format(time.RFC3339), dash(r.Actor), r.Action, r.Note)
	for _, d := range r.Diff {
		p.say("%s %s %s\n", d.Action, d.Kind, d.ID)
		for line := range strings.Lines(d.Text) {
			p.say("  %s", line)
		}
	}
	return nil
}

func (p *program) rollbackCommand(f *serverFlags) *cobra.Command {
	var all, dryRun bool
	var out format
	c := &cobra.Command{
		Use:   "rollback REVISION",
		Short: "Make the rules what they were at a revision",
		Long:  `Make the rules of a namespace what they were at a revision, as a new revision. With --all, its clients and overrides, too.`,
		Example: `  headgate rules rollback 41 --dry-run
  headgate rules rollback 41`,
		Args: cobra.ExactArgs(1),
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, args []string) error {
		n, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%q: want the number of a revision, as \"headgate rules history\" lists them", args[0])
		}
		query := url.Values{"all": {strconv.FormatBool(all)}, "dry_run": {strconv.FormatBool(dryRun)}}
		made := &remote.Applied{}
		if err := at.Do(ctx, "POST", fmt.Sprintf("/v1/revisions/%d:rollback", n), query, nil, made); err != nil {
			return err
		}
		return p.showApplied(made, out, dryRun)
	})
	c.Flags().BoolVar(&all, "all", false, "clients and overrides as well")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would change, and change nothing")
	formatFlag(c, &out)
	return c
}
