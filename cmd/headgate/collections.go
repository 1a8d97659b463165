package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/remote"
	"github.com/headgate/headgate/rules/file"
)

// A sort is a collection as commands speak of it.
type sort struct {
	of      remote.Collection
	thing   string
	example string // the id of one, in examples
	head    []string
	columns func(*entry) []string
	yaml    func(body []byte) ([]byte, error) // as in a rules file; nil if there is none of them in it
}

func ruleYAML(body []byte) ([]byte, error) {
	r, err := control.ParseRule(body)
	return file.RuleYAML(&r), err
}

func clientYAML(body []byte) ([]byte, error) {
	c, err := control.ParseClient(body)
	return file.ClientYAML(&c), err
}

// An entry is what tables show of rules, clients and overrides.
type entry struct {
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

// grants says what may pass.
func (e *entry) grants() string {
	switch {
	case e.Block:
		return "block"
	case e.Unlimited:
		return "unlimited"
	}
	return dash(inLine(e.Limits))
}

var (
	ruleSort = sort{
		remote.Rules, "rule", "search-per-user",
		[]string{"ID", "LIMITS", "KEY", "WHEN", "ON LIMIT", "REVISION", "CHANGED", "BY"},
		func(e *entry) []string {
			state := dash(e.OnLimit)
			if e.OnLimit == "" {
				state = "reject"
			}
			if e.Enabled != nil && !*e.Enabled {
				state = "off"
			}
			return []string{e.ID, e.grants(), dash(inLine(e.Key)), cut(dash(inLine(e.When)), 50), state}
		},
		ruleYAML,
	}
	clientSort = sort{
		remote.Clients, "client", "acme",
		[]string{"ID", "LIMITS", "RULES", "KNOWN BY", "REVISION", "CHANGED", "BY"},
		func(e *entry) []string {
			known := inLine(e.Attributes)
			if known == "" {
				known = "user: " + e.ID
			}
			return []string{e.ID, e.grants(), fmt.Sprint(len(e.Rules)), cut(known, 50)}
		},
		clientYAML,
	}
	overrideSort = sort{
		remote.Overrides, "override", "launch",
		[]string{"ID", "CLIENT", "LIMITS", "RULE", "EXPIRES", "NOTE", "REVISION", "CHANGED", "BY"},
		func(e *entry) []string {
			var who []string
			for _, name := range slices.Sorted(maps.Keys(e.Client)) {
				who = append(who, name+"="+e.Client[name])
			}
			rule := e.Rule
			if rule == "" {
				rule = "all"
			}
			return []string{e.ID, strings.Join(who, " "), e.grants(), rule, until(e.Expires), cut(dash(e.Note), 30)}
		},
		nil,
	}
)

// inLine writes JSON as it would stand in one line of a rules file.
func inLine(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		parts := make([]string, len(list))
		for i := range list {
			parts[i] = inLine(list[i])
		}
		return strings.Join(parts, ", ")
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) == nil && fields != nil {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			parts = append(parts, name+": "+inLine(fields[name]))
		}
		return strings.Join(parts, ", ")
	}
	return string(raw)
}

func (s *sort) row(o *remote.Object) []string {
	var e entry
	if err := json.Unmarshal(o.Body, &e); err != nil {
		return []string{"?", err.Error()}
	}
	return append(s.columns(&e), fmt.Sprint(o.Revision), ago(o.Updated), dash(o.By))
}

// An item is an object as JSON and YAML show it: what it is comes first.
type item struct {
	thing string
	of    *remote.Object
}

func (i item) MarshalJSON() ([]byte, error) {
	rest, err := json.Marshal(map[string]any{"revision": i.of.Revision, "created": i.of.Created, "updated": i.of.Updated, "by": i.of.By})
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"`+i.thing+`":`), i.of.Body, []byte(","), rest[1:]), nil
}

func (p *program) listCommand(s *sort, f *serverFlags) *cobra.Command {
	var out format
	var search string
	most := 1000
	c := &cobra.Command{
		Use:   "list",
		Short: "List the " + s.thing + "s of a namespace",
		Example: fmt.Sprintf(`  headgate %[1]s list
  headgate %[1]s list --search acme --output json`, s.of),
		Args: cobra.NoArgs,
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, _ []string) error {
		items, rows := []item{}, [][]string{}
		total := 0
		for q := (remote.Query{Search: search}); ; {
			q.Limit = min(500, most-len(items))
			page, err := at.List(ctx, s.of, q)
			if err != nil {
				return err
			}
			total = page.Total
			for i := range page.Objects {
				items = append(items, item{s.thing, &page.Objects[i]})
				rows = append(rows, s.row(&page.Objects[i]))
			}
			if q.Cursor = page.Next; q.Cursor == "" || len(items) >= most {
				break
			}
		}
		if err := p.show(out, items, s.head, rows); err != nil {
			return err
		}
		if len(items) < total {
			_, _ = fmt.Fprintf(p.stderr, "headgate: %d of %d; --limit shows more, --search fewer\n", len(items), total)
		}
		return nil
	})
	c.Flags().StringVar(&search, "search", "", "only those that contain `TEXT`")
	c.Flags().IntVar(&most, "limit", most, "the most to list")
	formatFlag(c, &out)
	return c
}

func (p *program) getCommand(s *sort, f *serverFlags) *cobra.Command {
	out := formatYAML
	c := &cobra.Command{
		Use:   "get ID",
		Short: "Show one " + s.thing,
		Example: fmt.Sprintf(`  headgate %[1]s get %[2]s
  headgate %[1]s get %[2]s --output json`, s.of, s.example),
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeIDs(s, f),
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, args []string) error {
		found, err := at.Get(ctx, s.of, args[0])
		if err != nil {
			return err
		}
		if out == formatTable {
			return p.table(s.head, [][]string{s.row(found)})
		}
		write := s.yaml
		if out != formatYAML || write == nil {
			write = func(body []byte) ([]byte, error) { return written(out, body) }
		}
		text, err := write(found.Body)
		if err != nil {
			return err
		}
		_, err = p.stdout.Write(text)
		return err
	})
	formatFlag(c, &out)
	return c
}

func (p *program) deleteCommand(s *sort, f *serverFlags) *cobra.Command {
	base := control.Any
	c := &cobra.Command{
		Use:               "delete ID...",
		Short:             "Delete " + s.thing + "s",
		Example:           fmt.Sprintf(`  headgate %s delete %s`, s.of, s.example),
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: p.completeIDs(s, f),
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, args []string) error {
		for _, id := range args {
			if err := at.Delete(ctx, s.of, id, base); err != nil {
				return fmt.Errorf("delete %s %s: %w", s.thing, id, err)
			}
			p.say("deleted %s %s\n", s.thing, id)
		}
		return nil
	})
	c.Flags().Int64Var(&base, "revision", base, "only if it is at this `REVISION` (default any)")
	noteFlag(c, f)
	return c
}

// completionTime is how long a shell waits for ids.
const completionTime = 2 * time.Second

// completeIDs completes ids by what the rules service has.
func (p *program) completeIDs(s *sort, f *serverFlags) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return p.complete(c, f, func(ctx context.Context, at *remote.Client) ([]string, error) { return idsOf(ctx, at, s, begun) })
	}
}

// complete asks a rules service for what a shell completes.
func (p *program) complete(
	c *cobra.Command, f *serverFlags, ask func(context.Context, *remote.Client) ([]string, error),
) ([]string, cobra.ShellCompDirective) {
	at, err := p.connect(f)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer func() { _ = at.Close() }() // it was read
	ctx, cancel := context.WithTimeout(commandContext(c), completionTime)
	defer cancel()
	found, err := ask(ctx, at)
	if err != nil && len(found) == 0 {
		return nil, cobra.ShellCompDirectiveError
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// begins returns those of a list that begin so, each with what is said of it.
func begins[T any](list []T, begun string, name func(*T) (id, says string)) []string {
	var found []string
	for i := range list {
		if id, says := name(&list[i]); strings.HasPrefix(id, begun) {
			found = append(found, cobra.CompletionWithDesc(id, plain(says)))
		}
	}
	return found
}

// endCommand returns a command that ends things of which the arguments are the ids: "delete", "deleted", "webhook".
func (p *program) endCommand(f *serverFlags, c *cobra.Command, done, thing, path string) *cobra.Command {
	verb := c.Name()
	c.Args = cobra.MinimumNArgs(1)
	noteFlag(c, f)
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, args []string) error {
		for _, id := range args {
			if err := at.Do(ctx, "DELETE", path+url.PathEscape(id), nil, nil, nil); err != nil {
				return fmt.Errorf("%s %s %s: %w", verb, thing, id, err)
			}
			p.say("%s %s %s\n", done, thing, id)
		}
		return nil
	})
	return c
}

// maxCompletions is how many ids a shell is offered: nobody looks through more.
const maxCompletions = 1000

// idsOf returns the ids that begin so, as far as it came. What is searched for may stand elsewhere than in ids, so it goes on until
// it has enough of them or there are no more.
func idsOf(ctx context.Context, at *remote.Client, s *sort, begun string) (ids []string, err error) {
	for q := (remote.Query{Search: begun, Limit: 1000}); ; {
		page, err := at.List(ctx, s.of, q)
		if err != nil {
			return ids, err
		}
		for i := range page.Objects {
			var e entry
			if json.Unmarshal(page.Objects[i].Body, &e) == nil && strings.HasPrefix(e.ID, begun) {
				ids = append(ids, cobra.CompletionWithDesc(e.ID, e.grants()))
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" || len(ids) >= maxCompletions {
			return ids, nil
		}
	}
}

// commandContext is the context of a command, which it has not while a shell completes.
func commandContext(c *cobra.Command) context.Context {
	if ctx := c.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
