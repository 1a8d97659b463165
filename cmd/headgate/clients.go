package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/remote"
	"github.com/headgate/headgate/rules"
)

func (p *program) clientsCommand() *cobra.Command {
	f := &serverFlags{}
	c := &cobra.Command{
		Use:   "clients",
		Short: "Register clients with a rules service",
		Example: `  headgate clients set acme --attribute user=acme --attribute api_key=k1 --limit 500/s
  headgate clients list --search acme
  headgate clients import clients.ndjson`,
	}
	p.addServer(c, f)
	c.AddCommand(
		p.listCommand(&clientSort, f), p.getCommand(&clientSort, f), p.setClientCommand(f), p.deleteCommand(&clientSort, f), p.importCommand(f),
	)
	return c
}

func (p *program) setClientCommand(f *serverFlags) *cobra.Command {
	var asked struct {
		ID         string         `json:"id"`
		Attributes map[string]any `json:"attributes,omitempty"`
		Limits     []string       `json:"limits,omitempty"`
		Unlimited  bool           `json:"unlimited,omitempty"`
		Block      bool           `json:"block,omitempty"`
	}
	var attributes []string
	base := control.Any
	c := &cobra.Command{
		Use:   "set ID",
		Short: "Register a client, or make one that is registered what is said",
		Long: `Register a client, or make one that is registered what is said: what is not said it does not have any more. Without an attribute
it is known as the user of that name. An attribute that no request has is a property, such as its plan: conditions of rules go by it as
client.plan. What it has under single rules is for a file: see "headgate clients import".`,
		Example: `  headgate clients set acme --limit 500/s
  headgate clients set acme --attribute user=acme --attribute api_key=k1 --attribute api_key=k2 --unlimited
  headgate clients set acme --attribute plan=gold`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeIDs(&clientSort, f),
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, args []string) error {
		asked.ID = args[0]
		values := map[string][]string{}
		for _, text := range attributes {
			name, value, ok := strings.Cut(text, "=")
			if !ok || name == "" || value == "" {
				return fmt.Errorf("%s: want ATTRIBUTE=VALUE, such as user=acme", rules.Quote(text))
			}
			values[name] = append(values[name], value)
		}
		asked.Attributes = make(map[string]any, len(values))
		for name, list := range values {
			if asked.Attributes[name] = list; len(list) == 1 {
				asked.Attributes[name] = list[0] // which is all that a property may have
			}
		}
		body, err := json.Marshal(asked)
		if err != nil {
			return err
		}
		revision, err := at.Put(ctx, remote.Clients, args[0], body, base)
		if err != nil {
			return err
		}
		p.say("client %s is at revision %d\n", args[0], revision)
		return nil
	})
	flags := c.Flags()
	flags.StringArrayVar(&attributes, "attribute", nil, "what it is known by, or a property, as `ATTRIBUTE=VALUE` (default user=ID)")
	flags.StringArrayVar(&asked.Limits, "limit", nil, "a `LIMIT` of its own under all rules, such as \"500/s burst 1000\"")
	flags.BoolVar(&asked.Unlimited, "unlimited", false, "no limit at all")
	flags.BoolVar(&asked.Block, "block", false, "nothing passes")
	flags.Int64Var(&base, "revision", base, "only if it is at this `REVISION`, 0 if there is none (default any)")
	noteFlag(c, f)
	return c
}

func (p *program) overridesCommand() *cobra.Command {
	f := &serverFlags{}
	c := &cobra.Command{
		Use:   "overrides",
		Short: "Give a client other limits for a while",
		Example: `  headgate overrides create --id launch --client user=acme --limit 500/s --for 72h --note "their launch"
  headgate overrides list`,
	}
	p.addServer(c, f)
	c.AddCommand(p.createOverrideCommand(f), p.listCommand(&overrideSort, f), p.getCommand(&overrideSort, f), p.deleteCommand(&overrideSort, f))
	return c
}

func (p *program) createOverrideCommand(f *serverFlags) *cobra.Command {
	var who []string
	var ends string
	out := formatYAML
	var asked struct {
		ID        string            `json:"id,omitempty"`
		Client    map[string]string `json:"client"`
		Rule      string            `json:"rule,omitempty"`
		Limits    []string          `json:"limits,omitempty"`
		Unlimited bool              `json:"unlimited,omitempty"`
		Block     bool              `json:"block,omitempty"`
		Expires   string            `json:"expires,omitempty"`
		For       string            `json:"for,omitempty"`
		Note      string            `json:"note,omitempty"`
	}
	c := &cobra.Command{
		Use:   "create --client ATTRIBUTE=VALUE (--limit LIMIT | --unlimited | --block) (--for TIME | --until TIME)",
		Short: "Give a client other limits for a while",
		Example: `  headgate overrides create --client user=acme --limit 500/s --for 72h
  headgate overrides create --client ip=203.0.113.9 --block --until "2027-01-01 18:00" --note "scraper"`,
		Args: cobra.NoArgs,
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, _ []string) (err error) {
		if asked.Client, err = attributesOf(who); err != nil {
			return fmt.Errorf("--client: %w", err)
		}
		if asked.Expires, err = readTime(ends); err != nil {
			return fmt.Errorf("--until: %w", err)
		}
		asked.Note = f.note
		var made map[string]json.RawMessage
		if err := at.Do(ctx, "POST", "/v1/overrides", nil, asked, &made); err != nil {
			return err
		}
		var warnings []string
		if err := json.Unmarshal(made["warnings"], &warnings); made["warnings"] != nil && err != nil {
			return err
		}
		for _, w := range warnings {
			_, _ = fmt.Fprintln(p.stderr, "headgate: "+w)
		}
		if out == formatTable {
			return p.tableOf(&overrideSort, made)
		}
		return p.showRaw(out, made["override"])
	})
	flags := c.Flags()
	flags.StringArrayVar(&who, "client", nil, "whom it is for, as `ATTRIBUTE=VALUE`; one of several is enough")
	flags.StringVar(&asked.Rule, "rule", "", "`ID` of the rule that it is of (default all that count the client)")
	flags.StringArrayVar(&asked.Limits, "limit", nil, "a `LIMIT` instead of those it has, such as \"500/s burst 1000\"")
	flags.BoolVar(&asked.Unlimited, "unlimited", false, "no limit at all")
	flags.BoolVar(&asked.Block, "block", false, "nothing passes")
	flags.StringVar(&asked.For, "for", "", "how long, such as 72h or 3d")
	flags.StringVar(&ends, "until", "", "when it ends: a `TIME` here such as \"2027-01-31 18:00\" or 2027-01-31, or with its zone, 2027-01-31T18:00:00Z")
	flags.StringVar(&asked.ID, "id", "", "its `ID` (default a random one)")
	noteFlag(c, f)
	_ = c.MarkFlagRequired("client")                                      // it is there
	_ = c.RegisterFlagCompletionFunc("rule", p.completeIDs(&ruleSort, f)) // it is there
	formatFlag(c, &out)
	return c
}

// tableOf shows an object that was just made as lists do.
func (p *program) tableOf(s *sort, made map[string]json.RawMessage) error {
	o := remote.Object{Body: made[s.thing]}
	for name, into := range map[string]any{"revision": &o.Revision, "updated": &o.Updated, "by": &o.By} {
		if err := json.Unmarshal(made[name], into); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return p.table(s.head, [][]string{s.row(&o)})
}

// readTime reads a time as people here write it, and returns it with its zone.
func readTime(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	for _, form := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return t.Format(time.RFC3339), nil
		}
	}
	return "", fmt.Errorf("%s: want a time such as \"2027-01-31 18:00\"", rules.Quote(text))
}
