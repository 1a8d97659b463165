package manage

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/control/token"
)

func (p *program) tokensCommand() *cobra.Command {
	f := &cli.ServerFlags{}
	c := &cobra.Command{
		Use:   "tokens",
		Short: "Manage access to the rules service",
		Long: `Manage access to the rules service. A token has a role and namespaces: a viewer reads, an editor changes
rules, an admin manages tokens, and a node receives rules and sends heartbeats. The secret of a token is shown once,
when it is created.`,
		Example: `  headgate tokens create --id alice --role editor --in shop --for 90d
  headgate tokens list
  headgate tokens revoke alice`,
	}
	p.AddServerFlags(c, f)
	c.AddCommand(p.createTokenCommand(f), p.listTokensCommand(f), p.revokeTokenCommand(f))
	return c
}

func (p *program) createTokenCommand(f *cli.ServerFlags) *cobra.Command {
	var request struct {
		ID          string   `json:"id,omitempty"`
		Role        string   `json:"role"`
		Namespaces  []string `json:"namespaces"`
		Description string   `json:"description,omitempty"`
		For         string   `json:"for,omitempty"`
	}
	var write string
	var out output.Format
	c := &cobra.Command{
		Use:   "create --role ROLE",
		Short: "Create a token and show its secret once",
		Example: `  headgate tokens create --id alice --role editor --in shop --for 90d
  headgate tokens create --role node --in shop --write node-token.txt`,
		Args: cobra.NoArgs,
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, _ []string) error {
		var created struct {
			Token  token.Token `json:"token"`
			Secret string      `json:"secret"`
		}
		if err := client.Do(ctx, "POST", "/v1/tokens", nil, request, &created); err != nil {
			return err
		}
		if write != "" {
			return p.writeSecret(write, "token", created.Token.ID, created.Secret)
		}
		if out != output.Table {
			return p.Show(out, created, nil, nil)
		}
		_, _ = fmt.Fprintf(p.Stderr, "token %s, role %s, namespaces %s; its secret is shown only once:\n",
			created.Token.ID, created.Token.Role, strings.Join(created.Token.Namespaces, ", "))
		p.Printf("%s\n", created.Secret)
		return nil
	})
	flags := c.Flags()
	flags.StringVar(&request.Role, "role", "", "viewer, editor, admin or node")
	flags.StringSliceVar(&request.Namespaces, "in", []string{"*"}, "`NAMESPACES` that the token has access to; * is all")
	flags.StringVar(&request.ID, "id", "", "the `ID` of the token, shown in the audit log (default a random one)")
	flags.StringVar(&request.Description, "description", "", "a description")
	flags.StringVar(&request.For, "for", "", "how long the token is valid, such as 90d or 12h (default unlimited)")
	flags.StringVar(&write, "write", "", "write the secret to `FILE`, which only you can read, instead of showing it")
	_ = c.MarkFlagRequired("role") // the flag exists
	output.CompleteFlag(c, "role", "viewer", "editor", "admin", "node")
	output.AddFlag(c, &out)
	cli.AddNoteFlag(c, f)
	return c
}

func listTokens(ctx context.Context, client *remote.Client) ([]token.Token, error) {
	return listAll[token.Token](ctx, client, "/v1/tokens")
}

func (p *program) listTokensCommand(f *cli.ServerFlags) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the tokens, without their secrets",
		Example: `  headgate tokens list`,
		Args:    cobra.NoArgs,
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, _ []string) error {
		list, err := listTokens(ctx, client)
		if err != nil {
			return err
		}
		rows := [][]string{}
		for _, t := range list {
			rows = append(rows, []string{
				t.ID, string(t.Role), strings.Join(t.Namespaces, ", "), output.Expiry(t.Expires), output.RelativeTime(t.Created),
				output.OrDash(t.By), t.Description,
			})
		}
		return p.Show(out, list, []string{"ID", "ROLE", "NAMESPACES", "EXPIRES", "CREATED", "BY", "DESCRIPTION"}, rows)
	})
	output.AddFlag(c, &out)
	return c
}

func (p *program) revokeTokenCommand(f *cli.ServerFlags) *cobra.Command {
	return p.deleteByIDCommand(f, &cobra.Command{
		Use:     "revoke ID...",
		Short:   "Revoke tokens immediately",
		Example: `  headgate tokens revoke alice`,
		ValidArgsFunction: func(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return p.CompleteFromService(c, f, func(ctx context.Context, client *remote.Client) ([]string, error) {
				list, err := listTokens(ctx, client)
				return cli.CompleteByPrefix(list, prefix, func(t *token.Token) (id, description string) {
					return t.ID, string(t.Role) + " of " + strings.Join(t.Namespaces, ", ")
				}), err
			})
		},
	}, "revoked", "token", "/v1/tokens/")
}
