package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/control/remote"
)

// An issued is a token as the rules service knows it.
type issued struct {
	ID          string    `json:"id"`
	Role        string    `json:"role"`
	Namespaces  []string  `json:"namespaces"`
	Description string    `json:"description,omitempty"`
	Expires     time.Time `json:"expires,omitzero"`
	Expired     bool      `json:"expired,omitempty"`
	Created     time.Time `json:"created,omitzero"`
	By          string    `json:"by,omitempty"`
}

func (p *program) tokensCommand() *cobra.Command {
	f := &serverFlags{}
	c := &cobra.Command{
		Use:   "tokens",
		Short: "Say who may read and change rules",
		Long: `Say who may read and change rules. A token has a role and namespaces: a viewer reads, an editor changes rules, an admin
makes tokens, and a node takes rules and says how it is. Its secret is shown once, when it is made.`,
		Example: `  headgate tokens create --id alice --role editor --in shop --for 90d
  headgate tokens list
  headgate tokens revoke alice`,
	}
	p.addServer(c, f)
	c.AddCommand(p.createTokenCommand(f), p.listTokensCommand(f), p.revokeTokenCommand(f))
	return c
}

func (p *program) createTokenCommand(f *serverFlags) *cobra.Command {
	var asked struct {
		ID          string   `json:"id,omitempty"`
		Role        string   `json:"role"`
		Namespaces  []string `json:"namespaces"`
		Description string   `json:"description,omitempty"`
		For         string   `json:"for,omitempty"`
	}
	var write string
	var out format
	c := &cobra.Command{
		Use:   "create --role ROLE",
		Short: "Make a token and show it once",
		Example: `  headgate tokens create --id alice --role editor --in shop --for 90d
  headgate tokens create --role node --in shop --write node-token.txt`,
		Args: cobra.NoArgs,
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, _ []string) error {
		var made struct {
			Token  issued `json:"token"`
			Secret string `json:"secret"`
		}
		if err := at.Do(ctx, "POST", "/v1/tokens", nil, asked, &made); err != nil {
			return err
		}
		if write != "" {
			if err := writeWhole(write, []byte(made.Secret+"\n"), 0o600); err != nil {
				return fmt.Errorf("token %s was made, but could not be written: %w; revoke it and make another", made.Token.ID, err)
			}
			p.say("token %s is in %s\n", made.Token.ID, write)
			return nil
		}
		if out != formatTable {
			return p.show(out, made, nil, nil)
		}
		_, _ = fmt.Fprintf(p.stderr, "token %s, role %s, for %s; it is shown this once:\n", made.Token.ID, made.Token.Role, strings.Join(made.Token.Namespaces, ", "))
		p.say("%s\n", made.Secret)
		return nil
	})
	flags := c.Flags()
	flags.StringVar(&asked.Role, "role", "", "viewer, editor, admin or node")
	flags.StringSliceVar(&asked.Namespaces, "in", []string{"*"}, "`NAMESPACES` that it is good for; * is all")
	flags.StringVar(&asked.ID, "id", "", "its `ID`, which the audit names (default one by chance)")
	flags.StringVar(&asked.Description, "description", "", "for people")
	flags.StringVar(&asked.For, "for", "", "how long it is good, such as 90d or 12h (default for ever)")
	flags.StringVar(&write, "write", "", "write it to `FILE`, which nobody else can read, and show nothing")
	_ = c.MarkFlagRequired("role") // it is there
	_ = c.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"viewer", "editor", "admin", "node"}, cobra.ShellCompDirectiveNoFileComp))
	formatFlag(c, &out)
	noteFlag(c, f)
	return c
}

func listTokens(ctx context.Context, at *remote.Client) ([]issued, error) {
	all := []issued{}
	query := url.Values{}
	for {
		var answer struct {
			Tokens []issued `json:"tokens"`
			Next   string   `json:"next"`
		}
		if err := at.Do(ctx, "GET", "/v1/tokens", query, nil, &answer); err != nil {
			return nil, err
		}
		all = append(all, answer.Tokens...)
		if answer.Next == "" {
			return all, nil
		}
		query.Set("cursor", answer.Next)
	}
}

func (p *program) listTokensCommand(f *serverFlags) *cobra.Command {
	var out format
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the tokens, without their secrets",
		Example: `  headgate tokens list`,
		Args:    cobra.NoArgs,
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, _ []string) error {
		list, err := listTokens(ctx, at)
		if err != nil {
			return err
		}
		rows := [][]string{}
		for _, t := range list {
			rows = append(rows, []string{t.ID, t.Role, strings.Join(t.Namespaces, ", "), until(t.Expires), ago(t.Created), dash(t.By), t.Description})
		}
		return p.show(out, list, []string{"ID", "ROLE", "NAMESPACES", "EXPIRES", "CREATED", "BY", "DESCRIPTION"}, rows)
	})
	formatFlag(c, &out)
	return c
}

func (p *program) revokeTokenCommand(f *serverFlags) *cobra.Command {
	return p.endCommand(f, &cobra.Command{
		Use:     "revoke ID...",
		Short:   "Make tokens worthless at once",
		Example: `  headgate tokens revoke alice`,
		ValidArgsFunction: func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return p.complete(c, f, func(ctx context.Context, at *remote.Client) ([]string, error) {
				list, err := listTokens(ctx, at)
				return begins(list, begun, func(t *issued) (id, says string) { return t.ID, t.Role + " of " + strings.Join(t.Namespaces, ", ") }), err
			})
		},
	}, "revoked", "token", "/v1/tokens/")
}
