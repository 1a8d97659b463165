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

// A resource describes a collection of the rules service to the commands list, get and delete.
type resource struct {
	collection remote.Collection
	noun       string
	exampleID  string // an id for examples in the help
	header     []string
	cells      func(*objectFields) []string      // cells of a table row, without those that all resources have
	toYAML     func(body []byte) ([]byte, error) // converts a body to the YAML of rules files; nil if they have none
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
func (e *objectFields) limitsText() string {
	switch {
	case e.Block:
		return "block"
	case e.Unlimited:
		return "unlimited"
	}
	return output.OrDash(inlineJSON(e.Limits))
}

var (
	ruleResource = resource{
		remote.Rules, "rule", "search-per-user",
		[]string{"ID", "LIMITS", "KEY", "WHEN", "ON LIMIT", "REVISION", "CHANGED", "BY"},
		func(e *objectFields) []string {
			state := cmp.Or(e.OnLimit, "reject")
			if e.Enabled != nil && !*e.Enabled {
				state = "off"
			}
			return []string{
				e.ID, e.limitsText(), output.OrDash(inlineJSON(e.Key)),
				output.Truncate(output.OrDash(inlineJSON(e.When)), 50), state,
			}
		},
		ruleYAML,
	}
	clientResource = resource{
		remote.Clients, "client", "acme",
		[]string{"ID", "LIMITS", "RULES", "KNOWN BY", "REVISION", "CHANGED", "BY"},
		func(e *objectFields) []string {
			attributes := cmp.Or(inlineJSON(e.Attributes), "user: "+e.ID)
			return []string{e.ID, e.limitsText(), fmt.Sprint(len(e.Rules)), output.Truncate(attributes, 50)}
		},
		clientYAML,
	}
	overrideResource = resource{
		remote.Overrides, "override", "launch",
		[]string{"ID", "CLIENT", "LIMITS", "RULE", "EXPIRES", "NOTE", "REVISION", "CHANGED", "BY"},
		func(e *objectFields) []string {
			return []string{
				e.ID, cli.FormatAttributes(e.Client), e.limitsText(), cmp.Or(e.Rule, "all"), output.Expiry(e.Expires),
				output.Truncate(output.OrDash(e.Note), 30),
			}
		},
		nil,
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

func (s *resource) row(o *edit.Resource) []string {
	var e objectFields
	if err := json.Unmarshal(o.Body(), &e); err != nil {
		return []string{"?", err.Error()}
	}
	return append(s.cells(&e), fmt.Sprint(o.Revision), output.Ago(o.Updated), output.OrDash(o.By))
}

func (p *program) listCommand(s *resource, f *cli.ServerFlags) *cobra.Command {
	var out output.Format
	var search string
	limit := 1000
	c := &cobra.Command{
		Use:   "list",
		Short: "List the " + s.noun + "s of a namespace",
		Example: fmt.Sprintf(`  headgate %[1]s list
  headgate %[1]s list --search acme --output json`, s.collection),
		Args: cobra.NoArgs,
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, _ []string) error {
		items, rows := []edit.Resource{}, [][]string{}
		total := 0
		for q := (remote.Query{Search: search}); ; {
			q.Limit = min(500, limit-len(items))
			page, err := client.List(ctx, s.collection, q)
			if err != nil {
				return err
			}
			total = page.Total
			for _, item := range page.Resources() {
				items = append(items, item)
				rows = append(rows, s.row(&item))
			}
			if q.Cursor = page.Next; q.Cursor == "" || len(items) >= limit {
				break
			}
		}
		if err := p.Show(out, items, s.header, rows); err != nil {
			return err
		}
		if len(items) < total {
			_, _ = fmt.Fprintf(p.Stderr, "headgate: %d of %d; --limit shows more, --search fewer\n", len(items), total)
		}
		return nil
	})
	c.Flags().StringVar(&search, "search", "", "list only "+s.noun+"s that contain `TEXT`")
	c.Flags().IntVar(&limit, "limit", limit, "the maximum number to list")
	output.AddFlag(c, &out)
	return c
}

func (p *program) getCommand(s *resource, f *cli.ServerFlags) *cobra.Command {
	out := output.YAML
	c := &cobra.Command{
		Use:   "get ID",
		Short: "Show one " + s.noun,
		Example: fmt.Sprintf(`  headgate %[1]s get %[2]s
  headgate %[1]s get %[2]s --output json`, s.collection, s.exampleID),
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeIDs(s, f),
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		found, err := client.Get(ctx, s.collection, args[0])
		if err != nil {
			return err
		}
		if out == output.Table {
			return p.Show(output.Table, nil, s.header, [][]string{s.row(found)})
		}
		write := s.toYAML
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

func (p *program) deleteCommand(s *resource, f *cli.ServerFlags) *cobra.Command {
	baseRevision := control.Any
	c := &cobra.Command{
		Use:               "delete ID...",
		Short:             "Delete " + s.noun + "s",
		Example:           fmt.Sprintf(`  headgate %s delete %s`, s.collection, s.exampleID),
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: p.completeIDs(s, f),
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		for _, id := range args {
			if err := client.Delete(ctx, s.collection, id, baseRevision); err != nil {
				return fmt.Errorf("delete %s %s: %w", s.noun, id, err)
			}
			p.Printf("deleted %s %s\n", s.noun, id)
		}
		return nil
	})
	c.Flags().Int64Var(&baseRevision, "revision", baseRevision, "only if it is at this `REVISION` (default any)")
	cli.AddNoteFlag(c, f)
	return c
}

// completeIDs returns a function that completes IDs of a resource.
func (p *program) completeIDs(s *resource, f *cli.ServerFlags) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return p.CompleteFromService(c, f, func(ctx context.Context, client *remote.Client) ([]string, error) {
			return findIDs(ctx, client, s, prefix)
		})
	}
}

// deleteByIDCommand sets RunE of c to delete the objects whose IDs are its arguments. path is the path of their
// collection. Messages contain done, such as "revoked", and noun, such as "token".
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
		var page struct {
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
// fields, so findIDs reads pages until it has enough IDs. After an error, it returns the IDs that it has found, too.
func findIDs(ctx context.Context, client *remote.Client, s *resource, prefix string) (ids []string, err error) {
	for q := (remote.Query{Search: prefix, Limit: 1000}); ; {
		page, err := client.List(ctx, s.collection, q)
		if err != nil {
			return ids, err
		}
		for _, item := range page.Resources() {
			var e objectFields
			if json.Unmarshal(item.Body(), &e) == nil && strings.HasPrefix(e.ID, prefix) {
				ids = append(ids, cobra.CompletionWithDesc(e.ID, e.limitsText()))
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" || len(ids) >= maxCompletions {
			return ids, nil
		}
	}
}
