package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

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
		ID         string              `json:"id"`
		Attributes map[string][]string `json:"attributes,omitempty"`
		Limits     []string            `json:"limits,omitempty"`
		Unlimited  bool                `json:"unlimited,omitempty"`
		Block      bool                `json:"block,omitempty"`
	}
	var attributes []string
	base := control.Any
	c := &cobra.Command{
		Use:   "set ID",
		Short: "Register a client, or make one that is registered what is said",
		Long: `Register a client, or make one that is registered what is said: what is not said it does not have any more. Without an attribute
it is known as the user of that name. What it has under single rules is for a file: see "headgate clients import".`,
		Example: `  headgate clients set acme --limit 500/s
  headgate clients set acme --attribute user=acme --attribute api_key=k1 --attribute api_key=k2 --unlimited`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeIDs(&clientSort, f),
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, args []string) error {
		asked.ID = args[0]
		for _, text := range attributes {
			name, value, ok := strings.Cut(text, "=")
			if !ok || name == "" || value == "" {
				return fmt.Errorf("%s: want ATTRIBUTE=VALUE, such as user=acme", rules.Quote(text))
			}
			if asked.Attributes == nil {
				asked.Attributes = make(map[string][]string)
			}
			asked.Attributes[name] = append(asked.Attributes[name], value)
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
	flags.StringArrayVar(&attributes, "attribute", nil, "what it is known by, as `ATTRIBUTE=VALUE` (default user=ID)")
	flags.StringArrayVar(&asked.Limits, "limit", nil, "a `LIMIT` of its own under all rules, such as \"500/s burst 1000\"")
	flags.BoolVar(&asked.Unlimited, "unlimited", false, "no limit at all")
	flags.BoolVar(&asked.Block, "block", false, "nothing passes")
	flags.Int64Var(&base, "revision", base, "only if it is at this `REVISION`, 0 if there is none (default whatever it is)")
	return c
}

func (p *program) overridesCommand() *cobra.Command {
	f := &serverFlags{}
	c := &cobra.Command{
		Use:   "overrides",
		Short: "Give a client other limits for a while",
		Example: `  headgate overrides create --client user=acme --limit 500/s --for 72h --note "their launch"
  headgate overrides list`,
	}
	p.addServer(c, f)
	c.AddCommand(p.createOverrideCommand(f), p.listCommand(&overrideSort, f), p.getCommand(&overrideSort, f), p.deleteCommand(&overrideSort, f))
	return c
}

func (p *program) createOverrideCommand(f *serverFlags) *cobra.Command {
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
  headgate overrides create --client ip=203.0.113.9 --block --until 2027-01-01T00:00:00Z --note "scraper"`,
		Args: cobra.NoArgs,
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, _ []string) error {
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
		text, err := written(formatYAML, made["override"])
		if err != nil {
			return err
		}
		_, err = p.stdout.Write(text)
		return err
	})
	flags := c.Flags()
	flags.StringToStringVar(&asked.Client, "client", nil, "whom it is for, as `ATTRIBUTE=VALUE`")
	flags.StringVar(&asked.Rule, "rule", "", "`ID` of the rule that it is of (default all that count the client)")
	flags.StringArrayVar(&asked.Limits, "limit", nil, "a `LIMIT` instead of those it has, such as \"500/s burst 1000\"")
	flags.BoolVar(&asked.Unlimited, "unlimited", false, "no limit at all")
	flags.BoolVar(&asked.Block, "block", false, "nothing passes")
	flags.StringVar(&asked.For, "for", "", "how long, such as 72h")
	flags.StringVar(&asked.Expires, "until", "", "when it ends, as RFC 3339")
	flags.StringVar(&asked.ID, "id", "", "its `ID` (default one by chance)")
	flags.StringVar(&asked.Note, "note", "", "why, for people")
	return c
}
