package manage

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/contexts"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/control/token"
	"github.com/headgate/headgate/server/control/webhook"
)

// An objectKind is a kind of object of the rules service, as the commands list, get and delete need it.
type objectKind struct {
	collection remote.Collection
	noun       string
	exampleID  string // an id for examples in the help
	header     []string
	cells      func(*objectFields) []string      // cells of a table row, without those that all resources have
	toYAML     func(body []byte) ([]byte, error) // converts a body to the YAML of rules files; nil if not possible
}

func ruleYAML(body []byte) ([]byte, error) {
	r, err := control.ParseRule(body)
	return file.RuleYAML(&r), err
}

func clientYAML(body []byte) ([]byte, error) {
	c, err := control.ParseClient(body)
	return file.ClientYAML(&c), err
}

// objectFields are the fields of rules, clients and overrides that tables show.
type objectFields struct {
	ID          string            `json:"id"`
	Description string            `json:"description"`
	Enabled     *bool             `json:"enabled"`
	Priority    int               `json:"priority"`
	Key         json.RawMessage   `json:"key"`
	When        json.RawMessage   `json:"when"`
	Limits      json.RawMessage   `json:"limits"`
	Unlimited   bool              `json:"unlimited"`
	Block       bool              `json:"block"`
	OnLimit     string            `json:"on_limit"`
	Attributes  json.RawMessage   `json:"attributes"`
	Client      map[string]string `json:"client"`
	Rule        string            `json:"rule"`
	Rules       []json.RawMessage `json:"rules"`
	Expires     time.Time         `json:"expires"`
	Note        string            `json:"note"`
}

// limitsText returns the limits, "block" or "unlimited".
func (o *objectFields) limitsText() string {
	switch {
	case o.Block:
		return "block"
	case o.Unlimited:
		return "unlimited"
	}
	return output.OrDash(inlineJSON(o.Limits))
}

var (
	ruleKind = objectKind{
		collection: remote.Rules,
		noun:       "rule",
		exampleID:  "search-per-user",
		header:     []string{"ID", "LIMITS", "KEY", "WHEN", "ON LIMIT", "REVISION", "CHANGED", "BY"},
		cells: func(o *objectFields) []string {
			onLimit := cmp.Or(o.OnLimit, "reject")
			if o.Enabled != nil && !*o.Enabled {
				onLimit = "off"
			}
			return []string{
				o.ID, o.limitsText(), output.OrDash(inlineJSON(o.Key)),
				output.Truncate(output.OrDash(inlineJSON(o.When)), 50), onLimit,
			}
		},
		toYAML: ruleYAML,
	}
	clientKind = objectKind{
		collection: remote.Clients,
		noun:       "client",
		exampleID:  "acme",
		header:     []string{"ID", "LIMITS", "RULES", "KNOWN BY", "REVISION", "CHANGED", "BY"},
		cells: func(o *objectFields) []string {
			attributes := cmp.Or(inlineJSON(o.Attributes), "user: "+o.ID) // without attributes, the user with this ID
			return []string{o.ID, o.limitsText(), fmt.Sprint(len(o.Rules)), output.Truncate(attributes, 50)}
		},
		toYAML: clientYAML,
	}
	overrideKind = objectKind{
		collection: remote.Overrides,
		noun:       "override",
		exampleID:  "launch",
		header:     []string{"ID", "CLIENT", "LIMITS", "RULE", "EXPIRES", "NOTE", "REVISION", "CHANGED", "BY"},
		cells: func(o *objectFields) []string {
			return []string{
				o.ID, output.FormatAttributes(o.Client), o.limitsText(), cmp.Or(o.Rule, "all"), output.Expiry(o.Expires),
				output.Truncate(output.OrDash(o.Note), 30),
			}
		},
	}
)

// inlineJSON formats JSON on one line, without quotes, brackets and braces.
func inlineJSON(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		parts := make([]string, len(list))
		for i := range list {
			parts[i] = inlineJSON(list[i])
		}
		return strings.Join(parts, ", ")
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) == nil && fields != nil {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			parts = append(parts, name+": "+inlineJSON(fields[name]))
		}
		return strings.Join(parts, ", ")
	}
	return string(raw)
}

func (kind *objectKind) row(item *edit.Resource) []string {
	var o objectFields
	if err := json.Unmarshal(item.Body(), &o); err != nil {
		return []string{"?", err.Error()}
	}
	return append(kind.cells(&o), fmt.Sprint(item.Revision), output.RelativeTime(item.Updated), output.OrDash(item.By))
}

func (p *program) listCommand(kind *objectKind, f *cli.ServerFlags) *cobra.Command {
	var out output.Format
	var search string
	limit := 1000
	c := &cobra.Command{
		Use:   "list",
		Short: "List the " + kind.noun + "s of a namespace",
		Example: fmt.Sprintf(`  headgate %[1]s list
  headgate %[1]s list --search acme --output json`, kind.collection),
		Args: cobra.NoArgs,
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, _ []string) error {
		items, rows := []edit.Resource{}, [][]string{}
		total := 0
		q := remote.Query{Search: search}
		for {
			q.Limit = min(500, limit-len(items))
			page, err := client.List(ctx, kind.collection, q)
			if err != nil {
				return err
			}
			total = page.Total
			for _, item := range page.Resources() {
				items = append(items, item)
				rows = append(rows, kind.row(&item))
			}
			if page.Next == "" || len(items) >= limit {
				break
			}
			q.Cursor = page.Next
		}
		if err := p.Show(out, items, kind.header, rows); err != nil {
			return err
		}
		if len(items) < total {
			_, _ = fmt.Fprintf(p.Stderr, "headgate: showing %d of %d; use --limit to show more, or --search to select some\n",
				len(items), total)
		}
		return nil
	})
	c.Flags().StringVar(&search, "search", "", "list only "+kind.noun+"s that contain `TEXT`")
	c.Flags().IntVar(&limit, "limit", limit, "the maximum number to list")
	output.AddFlag(c, &out)
	return c
}

func (p *program) getCommand(kind *objectKind, f *cli.ServerFlags) *cobra.Command {
	out := output.YAML
	c := &cobra.Command{
		Use:   "get ID",
		Short: "Show one " + kind.noun,
		Example: fmt.Sprintf(`  headgate %[1]s get %[2]s
  headgate %[1]s get %[2]s --output json`, kind.collection, kind.exampleID),
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeIDs(kind, f),
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		found, err := client.Get(ctx, kind.collection, args[0])
		if err != nil {
			return err
		}
		if out == output.Table {
			return p.Show(output.Table, nil, kind.header, [][]string{kind.row(found)})
		}
		write := kind.toYAML
		if out != output.YAML || write == nil {
			write = func(body []byte) ([]byte, error) { return output.Reformat(out, body) }
		}
		text, err := write(found.Body())
		if err != nil {
			return err
		}
		_, err = p.Stdout.Write(text)
		return err
	})
	output.AddFlag(c, &out)
	return c
}

func (p *program) deleteCommand(kind *objectKind, f *cli.ServerFlags) *cobra.Command {
	baseRevision := control.AnyRevision
	c := &cobra.Command{
		Use:               "delete ID...",
		Short:             "Delete " + kind.noun + "s",
		Example:           fmt.Sprintf(`  headgate %s delete %s`, kind.collection, kind.exampleID),
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: p.completeIDs(kind, f),
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		for _, id := range args {
			if err := client.Delete(ctx, kind.collection, id, baseRevision); err != nil {
				return fmt.Errorf("delete %s %s: %w", kind.noun, id, err)
			}
			p.Printf("deleted %s %s\n", kind.noun, id)
		}
		return nil
	})
	c.Flags().Int64Var(&baseRevision, "revision", baseRevision,
		"delete only if the current revision is `REVISION` (default any)")
	cli.AddNoteFlag(c, f)
	return c
}

// completeIDs returns a function that completes IDs of objects of a kind.
func (p *program) completeIDs(kind *objectKind, f *cli.ServerFlags) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return p.CompleteFromService(c, f, func(ctx context.Context, client *remote.Client) ([]string, error) {
			return findIDs(ctx, client, kind, prefix)
		})
	}
}

// deleteByIDCommand makes c a command that deletes the objects whose IDs are its arguments, and returns c. path is the
// path of their collection. Messages contain done, such as "revoked", and noun, such as "token".
func (p *program) deleteByIDCommand(f *cli.ServerFlags, c *cobra.Command, done, noun, path string) *cobra.Command {
	verb := c.Name()
	c.Args = cobra.MinimumNArgs(1)
	cli.AddNoteFlag(c, f)
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		for _, id := range args {
			if err := client.Do(ctx, "DELETE", path+url.PathEscape(id), nil, nil, nil); err != nil {
				return fmt.Errorf("%s %s %s: %w", verb, noun, id, err)
			}
			p.Printf("%s %s %s\n", done, noun, id)
		}
		return nil
	})
	return c
}

// maxCompletions is the number of IDs after which findIDs reads no more pages.
const maxCompletions = 1000

// listAll returns all tokens or webhooks of the rules service.
func listAll[T token.Token | webhook.Webhook](ctx context.Context, client *remote.Client, path string) ([]T, error) {
	all := []T{}
	query := url.Values{"limit": {"1000"}}
	for {
		var page struct { // has either tokens or webhooks
			Tokens   []T    `json:"tokens"`
			Webhooks []T    `json:"webhooks"`
			Next     string `json:"next"`
		}
		if err := client.Do(ctx, "GET", path, query, nil, &page); err != nil {
			return nil, err
		}
		all = append(append(all, page.Tokens...), page.Webhooks...)
		if page.Next == "" {
			return all, nil
		}
		query.Set("cursor", page.Next)
	}
}

// writeSecret writes the secret of a created object to a file that only the user can read.
func (p *program) writeSecret(path, noun, id, secret string) error {
	if err := contexts.ReplaceFile(path, []byte(secret+"\n"), 0o600); err != nil {
		return fmt.Errorf("%s %s was created, but its secret could not be written: %w; delete it and create another",
			noun, id, err)
	}
	p.Printf("the secret of %s %s is in %s\n", noun, id, path)
	return nil
}

// findIDs returns completions for the IDs that begin with prefix. The service also finds objects with prefix in other
// fields, so findIDs reads pages until it has enough IDs. If it returns an error, it also returns the IDs found until
// then.
func findIDs(ctx context.Context, client *remote.Client, kind *objectKind, prefix string) (ids []string, err error) {
	q := remote.Query{Search: prefix, Limit: 1000}
	for {
		page, err := client.List(ctx, kind.collection, q)
		if err != nil {
			return ids, err
		}
		for _, item := range page.Resources() {
			var o objectFields
			if json.Unmarshal(item.Body(), &o) == nil && strings.HasPrefix(o.ID, prefix) {
				ids = append(ids, cobra.CompletionWithDesc(o.ID, o.limitsText()))
			}
		}
		if page.Next == "" || len(ids) >= maxCompletions {
			return ids, nil
		}
		q.Cursor = page.Next
	}
}
