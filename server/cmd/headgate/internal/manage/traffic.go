package manage

import (
	"context"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control/remote"
)

func (p *program) trafficCommand() *cobra.Command {
	f := &cli.ServerFlags{}
	c := &cobra.Command{
		Use:   "traffic",
		Short: "Show the last decisions, or erase the statistics of a client; headgate top shows statistics",
		Example: `  headgate traffic decisions user=noisy
  headgate traffic erase user=noisy
  headgate top`,
	}
	p.AddServerFlags(c, f)
	c.AddCommand(p.decisionsCommand(f), p.eraseTrafficCommand(f))
	return c
}

func (p *program) eraseTrafficCommand(f *cli.ServerFlags) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:   "erase ATTRIBUTE=VALUE...",
		Short: "Erase the statistics of a client",
		Long: `Erase the statistics of a client from the rules service, its database and, within seconds, its nodes.
If several attributes are given, the client must have all of them. A secret may be given as lists show it, by its hash.
If the client sends more requests, they are counted again. The command does not reset the client's limits: "headgate keys reset" does.`,
		Example: `  headgate traffic erase user=noisy
  headgate traffic erase ip=192.0.2.7 --note "request of the data subject"`,
		Args: cobra.MinimumNArgs(1),
	}
	cli.AddNoteFlag(c, f)
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		attributes, err := cli.ParseAttributes(args)
		if err != nil {
			return err
		}
		var erased struct {
			Erased int `json:"erased"`
		}
		in := map[string]any{"client": attributes}
		if err := client.Do(ctx, http.MethodPost, "/v1/traffic/clients:erase", url.Values{}, in, &erased); err != nil {
			return err
		}
		if erased.Erased == 0 {
			return p.ShowOrPrint(out, erased, "no records of this client in the rules service; nodes erase its last decisions "+
				"and samples within seconds\n")
		}
		return p.ShowOrPrint(out, erased, "erased %s\n", output.Plural(erased.Erased, "record"))
	})
	output.AddFlag(c, &out)
	return c
}
