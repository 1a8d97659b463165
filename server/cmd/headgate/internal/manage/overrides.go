package manage

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/remote"
)

func (p *program) overridesCommand() *cobra.Command {
	f := &cli.ServerFlags{}
	c := &cobra.Command{
		Use:   "overrides",
		Short: "Give a client other limits for a limited time",
		Example: `  headgate overrides create --id launch --client user=acme --limit 500/s --for 72h --note "their launch"
  headgate overrides list`,
	}
	p.AddServerFlags(c, f)
	c.AddCommand(p.createOverrideCommand(f), p.listCommand(&overrideKind, f), p.getCommand(&overrideKind, f),
		p.deleteCommand(&overrideKind, f))
	return c
}

func (p *program) createOverrideCommand(f *cli.ServerFlags) *cobra.Command {
	var attributes []string
	var expires string
	out := output.YAML
	var request struct {
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
		Short: "Give a client other limits for a limited time",
		Example: `  headgate overrides create --client user=acme --limit 500/s --for 72h
  headgate overrides create --client ip=203.0.113.9 --block --until "2027-01-01 18:00" --note "scraper"`,
		Args: cobra.NoArgs,
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, _ []string) (err error) {
		if request.Client, err = cli.ParseAttributes(attributes); err != nil {
			return fmt.Errorf("--client: %w", err)
		}
		if request.Expires, err = parseTime(expires); err != nil {
			return fmt.Errorf("--until: %w", err)
		}
		request.Note = f.Note
		var created edit.Resource
		if err := client.Do(ctx, "POST", "/v1/overrides", nil, request, &created); err != nil {
			return err
		}
		for _, w := range created.Warnings {
			_, _ = fmt.Fprintln(p.Stderr, "headgate: "+w)
		}
		if out == output.Table {
			return p.Show(output.Table, nil, overrideKind.header, [][]string{overrideKind.row(&created)})
		}
		return output.WriteData(p.Stdout, out, created.Override)
	})
	flags := c.Flags()
	flags.StringArrayVar(&attributes, "client", nil,
		"the client, as `ATTRIBUTE=VALUE`; can be repeated, and one match is enough")
	flags.StringVar(&request.Rule, "rule", "", "`ID` of the rule (default all rules whose key identifies the client)")
	flags.StringArrayVar(&request.Limits, "limit", nil,
		"a `LIMIT` that replaces the current ones, such as \"500/s burst 1000\"; can be repeated")
	flags.BoolVar(&request.Unlimited, "unlimited", false, "do not limit the client")
	flags.BoolVar(&request.Block, "block", false, "deny all requests of the client")
	flags.StringVar(&request.For, "for", "", "the duration of the override, such as 72h or 3d")
	flags.StringVar(&expires, "until", "",
		"the `TIME` at which the override expires: local, such as \"2027-01-31 18:00\" or 2027-01-31, or with a zone, "+
			"2027-01-31T18:00:00Z")
	flags.StringVar(&request.ID, "id", "", "the `ID` of the override (default a random one)")
	cli.AddNoteFlag(c, f)
	_ = c.MarkFlagRequired("client")                                      // the flag exists
	_ = c.RegisterFlagCompletionFunc("rule", p.completeIDs(&ruleKind, f)) // the flag exists
	output.AddFlag(c, &out)
	return c
}

// parseTime parses a local time or one with a zone, and returns it in RFC 3339.
func parseTime(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	for _, form := range []string{
		time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04",
		time.DateOnly,
	} {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return t.Format(time.RFC3339), nil
		}
	}
	return "", fmt.Errorf("%s: want a time such as \"2027-01-31 18:00\"", rules.Quote(text))
}
