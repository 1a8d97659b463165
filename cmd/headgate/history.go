package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/control"
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

// touched says which objects it changed, as many as fit into a column and how many more.
func (r *revision) touched() string {
	const width = 60
	changes := r.Changes
	if len(changes) == 0 {
		changes = r.Diff
	}
	text := ""
	for i, c := range changes {
		part := fmt.Sprintf("%s %s %s", c.Action, c.Kind, c.ID)
		if c.Kind == control.KindEvent {
			part = happened(c.After)
		}
		if i > 0 && len(text)+len(part) > width {
			return fmt.Sprintf("%s and %d more", text, r.Count-i)
		}
		if i > 0 {
			text += ", "
		}
		text += cut(part, width)
	}
	return text
}

// happened says what an event of the audit was: a client that was forgotten, a node that was removed, or a backup that was restored.
func happened(after json.RawMessage) string {
	var e struct {
		Node               string
		Client             map[string]string
		Rules              []string
		More               int
		Revision, Replaced int64
		Error              string
	}
	if err := json.Unmarshal(after, &e); err != nil {
		return string(after)
	}
	switch {
	case e.Node != "":
		return "removed node " + e.Node
	case e.Client == nil:
		return fmt.Sprintf("all of revision %d replaced by a backup of revision %d", e.Replaced, e.Revision)
	}
	var who []string
	for _, name := range slices.Sorted(maps.Keys(e.Client)) {
		who = append(who, name+"="+e.Client[name])
	}
	text := "forgot " + strings.Join(who, " ") + " under " + dash(strings.Join(e.Rules, ", "))
	if e.More > 0 {
		text += fmt.Sprintf(" and %d more", e.More)
	}
	if e.Error != "" {
		text += "; " + e.Error
	}
	return text
}

// failedLogins are those that the audit tells of.
type failedLogins struct {
	Count  int64 `json:"count"`
	Recent []struct {
		Time     time.Time `json:"time"`
		From     string    `json:"from"`
		Listener string    `json:"listener,omitempty"`
		Denied   bool      `json:"denied,omitempty"`
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

// completeRevisions completes the number of a revision, the latest first.
func (p *program) completeRevisions(f *serverFlags) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, how := p.complete(c, f, func(ctx context.Context, at *remote.Client) ([]string, error) {
			list, _, err := changesOf(ctx, at, "/v1/revisions", url.Values{}, 100)
			return begins(list, begun, func(r *revision) (id, says string) {
				return strconv.FormatInt(r.Revision, 10), ago(r.Time) + ": " + r.touched()
			}), err
		})
		return found, how | cobra.ShellCompDirectiveKeepOrder
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
			rows = append(rows, []string{fmt.Sprint(r.Revision), ago(r.Time), dash(r.Actor), r.Action, r.touched(), cut(r.Note, 40)})
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
		return p.showRaw(out, raw)
	}
	var r revision
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	p.say("revision %d, %s (%s) by %s: %s\n", r.Revision, clock(r.Time), ago(r.Time), dash(r.Actor), r.Action)
	if r.Note != "" {
		p.say("note: %s\n", plain(r.Note))
	}
	p.sayDiff(r.Diff)
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
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeRevisions(f),
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
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change, and change nothing")
	noteFlag(c, f)
	formatFlag(c, &out)
	return c
}
