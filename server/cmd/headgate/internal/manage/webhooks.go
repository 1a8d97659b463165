package manage

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/secretfile"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/control/webhook"
)

var webhookHeader = []string{"ID", "URL", "CREATED", "BY", "DESCRIPTION"}

func webhookRow(w *webhook.Webhook) []string {
	return []string{w.ID, w.URL, output.RelativeTime(w.Created), output.OrDash(w.By), w.Description}
}

func (p *program) webhooksCommand() *cobra.Command {
	f := &cli.ServerFlags{}
	c := &cobra.Command{
		Use:   "webhooks",
		Short: "Notify other services of changes and alerts",
		Long: `Notify other services when rules, clients or overrides of a namespace change, or when an alert fires or
resolves. The rules service sends each event to the URL of each webhook that is subscribed to it, signed with the
webhook's secret, and retries until it is accepted. A delivery that fails too often is dead, and can be sent again.`,
		Example: `  headgate webhooks create --id deploys --url https://hooks.example.com/headgate
  headgate webhooks deliveries deploys
  headgate webhooks retry deploys 42`,
	}
	p.AddServerFlags(c, f)
	c.AddCommand(
		p.listWebhooksCommand(f), p.getWebhookCommand(f), p.createWebhookCommand(f), p.deleteWebhooksCommand(f),
		p.deliveriesCommand(f), p.retryCommand(f),
	)
	return c
}

func listWebhooks(ctx context.Context, client *remote.Client) ([]webhook.Webhook, error) {
	return listAll[webhook.Webhook](ctx, client, "/v1/webhooks")
}

// completeWebhooks returns a function that completes IDs of webhooks, in the first argument or in all arguments of
// delete.
func (p *program) completeWebhooks(f *cli.ServerFlags) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && c.Name() != "delete" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return p.CompleteFromService(c, f, func(ctx context.Context, client *remote.Client) ([]string, error) {
			list, err := listWebhooks(ctx, client)
			describe := func(w *webhook.Webhook) (id, description string) { return w.ID, w.URL }
			return cli.CompleteByPrefix(list, prefix, describe), err
		})
	}
}

func (p *program) listWebhooksCommand(f *cli.ServerFlags) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the webhooks of a namespace, without their secrets",
		Example: `  headgate webhooks list`,
		Args:    cobra.NoArgs,
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, _ []string) error {
		list, err := listWebhooks(ctx, client)
		if err != nil {
			return err
		}
		rows := [][]string{}
		for i := range list {
			rows = append(rows, webhookRow(&list[i]))
		}
		return p.Show(out, list, webhookHeader, rows)
	})
	output.AddFlag(c, &out)
	return c
}

func webhookPath(id string) string { return "/v1/webhooks/" + url.PathEscape(id) }

func (p *program) getWebhookCommand(f *cli.ServerFlags) *cobra.Command {
	out := output.YAML
	c := &cobra.Command{
		Use:               "get ID",
		Short:             "Show one webhook, without its secret",
		Example:           `  headgate webhooks get deploys`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeWebhooks(f),
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		var found webhook.Webhook
		if err := client.Do(ctx, "GET", webhookPath(args[0]), nil, nil, &found); err != nil {
			return err
		}
		return p.Show(out, found, webhookHeader, [][]string{webhookRow(&found)})
	})
	output.AddFlag(c, &out)
	return c
}

func (p *program) createWebhookCommand(f *cli.ServerFlags) *cobra.Command {
	var request struct {
		ID          string   `json:"id,omitempty"`
		URL         string   `json:"url"`
		Description string   `json:"description,omitempty"`
		Secret      string   `json:"secret,omitempty"`
		Events      []string `json:"events,omitempty"`
	}
	var secretFile, secretOutput string // paths of files
	var out output.Format
	c := &cobra.Command{
		Use:   "create --url URL",
		Short: "Create a webhook and show its secret once",
		Example: `  headgate webhooks create --id deploys --url https://hooks.example.com/headgate
  headgate webhooks create --id on-call --url https://hooks.example.com/on-call --events alert
  headgate webhooks create --id node-7 --url https://node-7.example.com:8084/v1/hooks/rules --write hook-secret.txt`,
		Args: cobra.NoArgs,
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, _ []string) error {
		if secretFile != "" {
			secret, err := secretfile.Read(secretFile)
			if err != nil {
				return fmt.Errorf("secret: %w", err)
			}
			request.Secret = strings.TrimSpace(string(secret))
		}
		var created struct {
			Webhook webhook.Webhook `json:"webhook"`
			Secret  string          `json:"secret"`
		}
		if err := client.Do(ctx, "POST", "/v1/webhooks", nil, request, &created); err != nil {
			return err
		}
		switch {
		case secretOutput != "":
			return p.writeSecret(secretOutput, "webhook", created.Webhook.ID, created.Secret)
		case out != output.Table:
			return p.Show(out, created, nil, nil)
		case secretFile != "":
			p.Printf("created webhook %s\n", created.Webhook.ID)
		default:
			_, _ = fmt.Fprintf(p.Stderr, "webhook %s to %s; its secret is shown only once:\n", created.Webhook.ID,
				created.Webhook.URL)
			p.Printf("%s\n", created.Secret)
		}
		return nil
	})
	flags := c.Flags()
	flags.StringVar(&request.URL, "url", "", "`URL` to send changes to")
	flags.StringVar(&request.ID, "id", "", "the `ID` of the webhook (default a random one)")
	flags.StringVar(&request.Description, "description", "", "a description")
	flags.StringSliceVar(&request.Events, "events", nil,
		"the `EVENTS` to send: revision, alert or both (default revision)")
	// This cannot fail, because the flag exists.
	_ = c.RegisterFlagCompletionFunc("events", cobra.FixedCompletions(
		[]string{webhook.Revisions, webhook.Alerts}, cobra.ShellCompDirectiveNoFileComp))
	flags.StringVar(&secretFile, "secret-file", "", "`FILE` with a secret of 16 to 1024 bytes (default a random one)")
	flags.StringVar(&secretOutput, "write", "",
		"write the secret to `FILE`, which only you can read, instead of showing it")
	_ = c.MarkFlagRequired("url") // cannot fail, because the flag exists
	output.AddFlag(c, &out)
	cli.AddNoteFlag(c, f)
	return c
}

func (p *program) deleteWebhooksCommand(f *cli.ServerFlags) *cobra.Command {
	return p.deleteByIDCommand(f, &cobra.Command{
		Use:               "delete ID...",
		Short:             "Delete webhooks and their pending deliveries",
		Example:           `  headgate webhooks delete deploys`,
		ValidArgsFunction: p.completeWebhooks(f),
	}, "deleted", "webhook", "/v1/webhooks/")
}

func (p *program) deliveriesCommand(f *cli.ServerFlags) *cobra.Command {
	var out output.Format
	var dead bool
	c := &cobra.Command{
		Use:   "deliveries ID",
		Short: "Show deliveries and their results, the latest first",
		Example: `  headgate webhooks deliveries deploys
  headgate webhooks deliveries deploys --dead`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeWebhooks(f),
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		var response struct {
			Deliveries []webhook.Delivery `json:"deliveries"`
		}
		if err := client.Do(ctx, "GET", webhookPath(args[0])+"/deliveries", nil, nil, &response); err != nil {
			return err
		}
		list, rows := []webhook.Delivery{}, [][]string{}
		for _, d := range response.Deliveries {
			if dead && d.State != webhook.Dead {
				continue
			}
			list = append(list, d)
			status := "-"
			if d.Status != 0 {
				status = strconv.Itoa(d.Status)
			}
			number := cmp.Or(d.Number, d.Revision) // only alerts have a Number; changes are identified by their revision
			rows = append(rows, []string{
				strconv.FormatInt(number, 10), cmp.Or(d.Event, webhook.EventRevision), string(d.State),
				strconv.Itoa(d.Attempts), status, output.RelativeTime(d.Last), output.RelativeTime(d.Next),
				output.Truncate(output.OrDash(d.Error), 60),
			})
		}
		return p.Show(out, list, []string{"NUMBER", "EVENT", "STATE", "ATTEMPTS", "STATUS", "LAST", "NEXT", "ERROR"}, rows)
	})
	c.Flags().BoolVar(&dead, "dead", false, "only dead deliveries")
	output.AddFlag(c, &out)
	return c
}

func (p *program) retryCommand(f *cli.ServerFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "retry ID NUMBER...",
		Short: "Send dead or accepted deliveries again",
		Example: `  headgate webhooks retry deploys 42
  headgate webhooks retry deploys 42 43 --note "the receiver was down"`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: p.completeWebhooks(f),
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		for _, number := range args[1:] {
			n, err := strconv.ParseInt(number, 10, 64)
			if err != nil || n < 1 {
				return fmt.Errorf("%q: want the number of a delivery, as listed by \"headgate webhooks deliveries\"", number)
			}
			if err := client.Do(ctx, "POST", fmt.Sprintf("%s/deliveries/%d:retry", webhookPath(args[0]), n), nil, nil,
				nil); err != nil {
				return fmt.Errorf("retry %d: %w", n, err)
			}
			p.Printf("sending delivery %d to webhook %s again\n", n, args[0])
		}
		return nil
	})
	cli.AddNoteFlag(c, f)
	return c
}
