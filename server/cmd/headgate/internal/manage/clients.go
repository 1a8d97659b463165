package manage

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
)

func (p *program) clientsCommand() *cobra.Command {
	f := &cli.ServerFlags{}
	c := &cobra.Command{
		Use:   "clients",
		Short: "Register clients with a rules service",
		Example: `  headgate clients set acme --attribute user=acme --attribute api_key=k1 --limit 500/s
  headgate clients list --search acme
  headgate clients import clients.ndjson`,
	}
	p.AddServerFlags(c, f)
	c.AddCommand(
		p.listCommand(&clientKind, f), p.getCommand(&clientKind, f), p.setClientCommand(f),
		p.deleteCommand(&clientKind, f), p.importCommand(f),
	)
	return c
}

func (p *program) setClientCommand(f *cli.ServerFlags) *cobra.Command {
	var request struct {
		ID         string         `json:"id"`
		Attributes map[string]any `json:"attributes,omitempty"`
		Limits     []string       `json:"limits,omitempty"`
		Unlimited  bool           `json:"unlimited,omitempty"`
		Block      bool           `json:"block,omitempty"`
	}
	var attributes []string
	baseRevision := control.AnyRevision
	c := &cobra.Command{
		Use:   "set ID",
		Short: "Register a client, or replace a registered one",
		Long: `Register a client, or replace a registered one completely. Attributes of requests, such as user, api_key and ip,
identify the client. Without --attribute, the client is the user with that ID. Any other name is a property of the
client, such as its plan; rules can match it as client.plan. To set limits for single rules, use a file: see
"headgate clients import".`,
		Example: `  headgate clients set acme --limit 500/s
  headgate clients set acme --attribute user=acme --attribute api_key=k1 --attribute api_key=k2 --unlimited
  headgate clients set acme --attribute plan=gold`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeIDs(&clientKind, f),
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		request.ID = args[0]
		values := map[string][]string{}
		for _, text := range attributes {
			name, value, err := cli.CutAttribute(text)
			if err != nil {
				return err
			}
			values[name] = append(values[name], value)
		}
		request.Attributes = make(map[string]any, len(values))
		for name, list := range values {
			request.Attributes[name] = list
			if len(list) == 1 { // a property must be a string; an attribute may be a string or a list
				request.Attributes[name] = list[0]
			}
		}
		body, err := json.Marshal(request)
		if err != nil {
			return err
		}
		revision, err := client.Put(ctx, remote.Clients, args[0], body, baseRevision)
		if err != nil {
			return err
		}
		p.Printf("client %s is at revision %d\n", args[0], revision)
		return nil
	})
	flags := c.Flags()
	flags.StringArrayVar(&attributes, "attribute", nil,
		"an `ATTRIBUTE=VALUE` that identifies the client, or a property; can be repeated (default user=ID)")
	flags.StringArrayVar(&request.Limits, "limit", nil,
		"a `LIMIT` of the client under all rules, such as \"500/s burst 1000\"; can be repeated")
	flags.BoolVar(&request.Unlimited, "unlimited", false, "do not limit the client")
	flags.BoolVar(&request.Block, "block", false, "deny all requests of the client")
	flags.Int64Var(&baseRevision, "revision", baseRevision,
		"only if the client is at this `REVISION`; 0 if it must not exist (default any)")
	cli.AddNoteFlag(c, f) // client sends the note
	return c
}
