package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/control/remote"
	"github.com/headgate/headgate/internal/secretfile"
)

// A webhook is one as the rules service knows it.
type webhook struct {
	ID          string    `json:"id"`
	URL         string    `json:"url"`
	Description string    `json:"description,omitempty"`
	Created     time.Time `json:"created,omitzero"`
	By          string    `json:"by,omitempty"`
}

var webhookHead = []string{"ID", "URL", "CREATED", "BY", "DESCRIPTION"}

func (w *webhook) row() []string {
	return []string{w.ID, w.URL, ago(w.Created), dash(w.By), w.Description}
}

// A delivery is a webhook that was sent, or is to be.
type delivery struct {
	Revision int64     `json:"revision"`
	State    string    `json:"state"`
	Attempts int       `json:"attempts"`
	Changed  time.Time `json:"changed,omitzero"`
	Last     time.Time `json:"last,omitzero"`
	Next     time.Time `json:"next,omitzero"`
	Status   int       `json:"status,omitempty"`
	Error    string    `json:"error,omitempty"`
}

func (p *program) webhooksCommand() *cobra.Command {
	f := &serverFlags{}
	c := &cobra.Command{
		Use:   "webhooks",
		Short: "Have others told when rules change",
		Long: `Have others told when rules, clients or overrides of a namespace change: each change is sent to the address of each webhook, signed with its
secret, again and again until it is taken. What was not taken after all is a dead letter, which can be sent again.`,
		Example: `  headgate webhooks create --id deploys --url https://hooks.example.com/headgate
  headgate webhooks deliveries deploys
  headgate webhooks retry deploys 42`,
	}
	p.addServer(c, f)
	c.AddCommand(
		p.listWebhooksCommand(f), p.getWebhookCommand(f), p.createWebhookCommand(f), p.deleteWebhooksCommand(f), p.deliveriesCommand(f), p.retryCommand(f),
	)
	return c
}

func webhooksOf(ctx context.Context, at *remote.Client) ([]webhook, error) {
	all := []webhook{}
	query := url.Values{"limit": {"1000"}}
	for {
		var answer struct {
			Webhooks []webhook `json:"webhooks"`
			Next     string    `json:"next"`
		}
		if err := at.Do(ctx, "GET", "/v1/webhooks", query, nil, &answer); err != nil {
			return nil, err
		}
		all = append(all, answer.Webhooks...)
		if answer.Next == "" {
			return all, nil
		}
		query.Set("cursor", answer.Next)
	}
}

// completeWebhooks completes the id of a webhook, which is the first argument.
func (p *program) completeWebhooks(f *serverFlags) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && c.Name() != "delete" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return p.complete(c, f, func(ctx context.Context, at *remote.Client) ([]string, error) {
			list, err := webhooksOf(ctx, at)
			return begins(list, begun, func(w *webhook) (id, says string) { return w.ID, w.URL }), err
		})
	}
}

func (p *program) listWebhooksCommand(f *serverFlags) *cobra.Command {
	var out format
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the webhooks of a namespace, without their secrets",
		Example: `  headgate webhooks list`,
		Args:    cobra.NoArgs,
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, _ []string) error {
		list, err := webhooksOf(ctx, at)
		if err != nil {
			return err
		}
		rows := [][]string{}
		for i := range list {
			rows = append(rows, list[i].row())
		}
		return p.show(out, list, webhookHead, rows)
	})
	formatFlag(c, &out)
	return c
}

func webhookPath(id string) string { return "/v1/webhooks/" + url.PathEscape(id) }

func (p *program) getWebhookCommand(f *serverFlags) *cobra.Command {
	out := formatYAML
	c := &cobra.Command{
		Use:               "get ID",
		Short:             "Show one webhook, without its secret",
		Example:           `  headgate webhooks get deploys`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeWebhooks(f),
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, args []string) error {
		var found webhook
		if err := at.Do(ctx, "GET", webhookPath(args[0]), nil, nil, &found); err != nil {
			return err
		}
		return p.show(out, found, webhookHead, [][]string{found.row()})
	})
	formatFlag(c, &out)
	return c
}

func (p *program) createWebhookCommand(f *serverFlags) *cobra.Command {
	var asked struct {
		ID          string `json:"id,omitempty"`
		URL         string `json:"url"`
		Description string `json:"description,omitempty"`
		Secret      string `json:"secret,omitempty"`
	}
	var secretFile, write string
	var out format
	c := &cobra.Command{
		Use:   "create --url URL",
		Short: "Make a webhook and show its secret once",
		Example: `  headgate webhooks create --id deploys --url https://hooks.example.com/headgate
  headgate webhooks create --id node-7 --url https://node-7.example.com:8084/v1/hooks/rules --write hook-secret.txt`,
		Args: cobra.NoArgs,
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, _ []string) error {
		if secretFile != "" {
			secret, err := secretfile.Read(secretFile)
			if err != nil {
				return fmt.Errorf("secret: %w", err)
			}
			asked.Secret = strings.TrimSpace(string(secret))
		}
		var made struct {
			Webhook webhook `json:"webhook"`
			Secret  string  `json:"secret"`
		}
		if err := at.Do(ctx, "POST", "/v1/webhooks", nil, asked, &made); err != nil {
			return err
		}
		switch {
		case write != "":
			if err := writeWhole(write, []byte(made.Secret+"\n"), 0o600); err != nil {
				return fmt.Errorf("webhook %s was made, but its secret could not be written: %w; delete it and make another", made.Webhook.ID, err)
			}
			p.say("the secret of webhook %s is in %s\n", made.Webhook.ID, write)
		case out != formatTable:
			return p.show(out, made, nil, nil)
		case secretFile != "":
			p.say("made webhook %s\n", made.Webhook.ID)
		default:
			_, _ = fmt.Fprintf(p.stderr, "webhook %s to %s; its secret is shown this once:\n", made.Webhook.ID, made.Webhook.URL)
			p.say("%s\n", made.Secret)
		}
		return nil
	})
	flags := c.Flags()
	flags.StringVar(&asked.URL, "url", "", "`URL` to send changes to")
	flags.StringVar(&asked.ID, "id", "", "its `ID` (default one by chance)")
	flags.StringVar(&asked.Description, "description", "", "for people")
	flags.StringVar(&secretFile, "secret-file", "", "`FILE` with a secret of 16 to 1024 bytes (default one by chance)")
	flags.StringVar(&write, "write", "", "write the secret to `FILE`, which nobody else can read, and do not show it")
	_ = c.MarkFlagRequired("url") // it is there
	formatFlag(c, &out)
	noteFlag(c, f)
	return c
}

func (p *program) deleteWebhooksCommand(f *serverFlags) *cobra.Command {
	return p.endCommand(f, &cobra.Command{
		Use:               "delete ID...",
		Short:             "Delete webhooks, and what was to be delivered",
		Example:           `  headgate webhooks delete deploys`,
		ValidArgsFunction: p.completeWebhooks(f),
	}, "deleted", "webhook", "/v1/webhooks/")
}

func (p *program) deliveriesCommand(f *serverFlags) *cobra.Command {
	var out format
	var dead bool
	c := &cobra.Command{
		Use:   "deliveries ID",
		Short: "Show what was sent, the latest first, and what came of it",
		Example: `  headgate webhooks deliveries deploys
  headgate webhooks deliveries deploys --dead`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeWebhooks(f),
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, args []string) error {
		var answer struct {
			Deliveries []delivery `json:"deliveries"`
		}
		if err := at.Do(ctx, "GET", webhookPath(args[0])+"/deliveries", nil, nil, &answer); err != nil {
			return err
		}
		list, rows := []delivery{}, [][]string{}
		for _, d := range answer.Deliveries {
			if dead && d.State != "dead" {
				continue
			}
			list = append(list, d)
			status := "-"
			if d.Status != 0 {
				status = strconv.Itoa(d.Status)
			}
			rows = append(rows, []string{
				strconv.FormatInt(d.Revision, 10), d.State, strconv.Itoa(d.Attempts), status, ago(d.Last), ago(d.Next), cut(dash(d.Error), 60),
			})
		}
		return p.show(out, list, []string{"REVISION", "STATE", "ATTEMPTS", "STATUS", "LAST", "NEXT", "ERROR"}, rows)
	})
	c.Flags().BoolVar(&dead, "dead", false, "only those that were given up")
	formatFlag(c, &out)
	return c
}

func (p *program) retryCommand(f *serverFlags) *cobra.Command {
	c := &cobra.Command{
		Use:               "retry ID REVISION...",
		Short:             "Send again what was given up, or was taken",
		Example:           `  headgate webhooks retry deploys 42`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: p.completeWebhooks(f),
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, args []string) error {
		for _, revision := range args[1:] {
			n, err := strconv.ParseInt(revision, 10, 64)
			if err != nil || n < 1 {
				return fmt.Errorf("%q: want the number of a revision, as \"headgate webhooks deliveries\" lists them", revision)
			}
			if err := at.Do(ctx, "POST", fmt.Sprintf("%s/deliveries/%d:retry", webhookPath(args[0]), n), nil, nil, nil); err != nil {
				return fmt.Errorf("retry %d: %w", n, err)
			}
			p.say("revision %d is sent to webhook %s again\n", n, args[0])
		}
		return nil
	})
	return c
}
