package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/cmd/headgate/internal/rulesfile"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/remote"
)

// applyFlags are the flags of the commands apply and diff.
type applyFlags struct {
	files []string
	prune bool
	base  int64
	out   output.Format
}

func (a *applyFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVarP(&a.files, "file", "f", nil,
		"a rules `FILE`, a directory of rules files, or - for standard input; can be repeated")
	c.Flags().BoolVar(&a.prune, "prune", false, "delete rules and clients that are not in the files")
	c.Flags().Int64Var(&a.base, "revision", control.Any, "only if the namespace is at this `REVISION` (default any)")
	output.AddFlag(c, &a.out)
}

func (p *program) applyCommand(f *serverFlags) *cobra.Command {
	a := &applyFlags{}
	var dryRun bool
	c := &cobra.Command{
		Use:   "apply -f FILE...",
		Short: "Create and update the rules of a namespace from files",
		Long: `Create and update the rules of a namespace from files, in one change: all of it or nothing.

Rules that are already equal are not changed, so applying twice has no effect. With --prune, rules that are not in the
files are deleted: use it if a pipeline applies all rules from a repository. Registered clients change only if a file
has a list of clients. The files are validated before anything is sent, and each error is shown with its line.`,
		Example: `  headgate rules apply -f rules.yaml
  headgate rules apply -f rules/ --prune --note "search is slow"
  headgate rules apply -f rules/ --prune --dry-run`,
		Args: cobra.NoArgs,
	}
	c.RunE = p.withClient(f, func(ctx context.Context, client *remote.Client, _ []string) error {
		_, err := p.apply(ctx, client, a, dryRun)
		return err
	})
	a.add(c)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change, and change nothing")
	addNoteFlag(c, f)
	return c
}

func (p *program) diffCommand(f *serverFlags) *cobra.Command {
	a := &applyFlags{}
	c := &cobra.Command{
		Use:   "diff -f FILE...",
		Short: "Show how files differ from the rules of a namespace",
		Long: `Show how files differ from the rules of a namespace: the changes that "rules apply" would make. Nothing is
changed.

The exit code is 0 if they are the same, 2 if they differ, and 1 on an error.`,
		Example: `  headgate rules diff -f rules.yaml
  headgate rules diff -f rules/ --prune`,
		Args: cobra.NoArgs,
	}
	c.RunE = p.withClient(f, func(ctx context.Context, client *remote.Client, _ []string) error {
		result, err := p.apply(ctx, client, a, true)
		if err == nil && len(result.Diff) > 0 {
			return exitCodeError(exitDiffers)
		}
		return err
	})
	a.add(c)
	return c
}

func (p *program) apply(
	ctx context.Context, client *remote.Client, a *applyFlags, dryRun bool,
) (*remote.Applied, error) {
	body, err := rulesfile.LoadAll(a.files, p.stdin)
	if err != nil {
		return nil, err
	}
	result, err := client.Apply(ctx, remote.Document{Body: body, Media: "application/json"}, a.prune, dryRun, a.base)
	if err != nil {
		return nil, err
	}
	return result, p.showApplied(result, a.out, dryRun)
}

// printDiff prints the changes of each object.
func (p *program) printDiff(list []remote.Diff) {
	for i := range list {
		p.printf("%s %s %s\n", list[i].Action, list[i].Kind, list[i].ID)
		for line := range strings.Lines(list[i].Text) {
			p.printf("  %s", line)
		}
	}
}

// showApplied prints the changes that were made, or that a dry run would make.
func (p *program) showApplied(result *remote.Applied, out output.Format, dryRun bool) error {
	if out != output.Table {
		return p.show(out, result, nil, nil)
	}
	counts := map[string]int{}
	for _, d := range result.Diff {
		counts[d.Action]++
	}
	p.printDiff(result.Diff)
	words := "created %d, updated %d, deleted %d, unchanged %d"
	if dryRun {
		words = "would create %d, update %d, delete %d, leave %d unchanged"
	}
	p.printf(words, counts["create"], counts["update"], counts["delete"], result.Unchanged)
	p.printf("; revision %d\n", result.Revision)
	return nil
}

func (p *program) importCommand(f *serverFlags) *cobra.Command {
	var prune bool
	var out output.Format
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Register many clients at once",
		Long: `Register many clients at once. FILE has a line of JSON for each client, or is a rules file with clients. - is
standard input.

Clients that are already registered are updated. With --prune, clients that are not in the file are removed. Without
--prune it shows progress on standard error, and clients that are registered when Ctrl-C or an error ends it stay.`,
		Example: `  headgate clients import clients.ndjson
  echo '{"id":"acme","limits":["500/s"]}' | headgate clients import -`,
		Args: cobra.ExactArgs(1),
	}
	c.RunE = p.withClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		from, err := rulesfile.OpenClients(args[0], p.stdin)
		if err != nil {
			return err
		}
		defer func() { _ = from.Close() }() // only read, so an error to close loses nothing
		var result *edit.Imported
		if prune { // the rules service must know all clients to remove the others
			result, err = client.Import(ctx, from, true)
		} else {
			send := func(ctx context.Context, lines io.Reader) (*edit.Imported, error) {
				return client.Import(ctx, lines, false)
			}
			in := &clientImport{send: send, progress: p.stderr, terminal: isTerminal(p.stderr), now: time.Now}
			if result, err = in.run(ctx, from); err != nil && result.Clients > 0 {
				_, _ = fmt.Fprintf(p.stderr, "headgate: %s registered before the error\n", output.Plural(result.Clients, "client"))
			}
		}
		if err != nil {
			return err
		}
		if out != output.Table {
			return p.show(out, result, nil, nil)
		}
		p.printf("%s: created %d, updated %d, deleted %d, unchanged %d; revision %d\n",
			output.Plural(result.Clients, "client"), result.Created, result.Updated, result.Deleted, result.Unchanged,
			result.Revision)
		return nil
	})
	c.Flags().BoolVar(&prune, "prune", false, "remove clients that are not in the file")
	addNoteFlag(c, f)
	output.AddFlag(c, &out)
	return c
}
