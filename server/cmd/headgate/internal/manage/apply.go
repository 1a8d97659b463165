package manage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
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
	c.Flags().Int64Var(&a.base, "revision", control.AnyRevision,
		"only if the namespace is at this `REVISION` (default any)")
	output.AddFlag(c, &a.out)
}

// refuseArguments refuses files without -f, such as those that a shell makes of -f *.yaml, and returns the right command.
func (a *applyFlags) refuseArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	files := slices.Concat(a.files, args)
	return fmt.Errorf("%q: give each file with -f: %s -f %s", args[0], c.CommandPath(), strings.Join(files, " -f "))
}

func (p *program) applyCommand(f *cli.ServerFlags) *cobra.Command {
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
		Args: a.refuseArguments,
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, _ []string) error {
		_, err := p.apply(ctx, client, a, dryRun)
		return err
	})
	a.add(c)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change, and change nothing")
	cli.AddNoteFlag(c, f)
	return c
}

func (p *program) diffCommand(f *cli.ServerFlags) *cobra.Command {
	a := &applyFlags{}
	c := &cobra.Command{
		Use:   "diff -f FILE...",
		Short: "Show how files differ from the rules of a namespace",
		Long: `Show how files differ from the rules of a namespace: the changes that "rules apply" would make. Nothing is
changed.

The exit code is 0 if they are the same, 2 if they differ, and 1 on an error.`,
		Example: `  headgate rules diff -f rules.yaml
  headgate rules diff -f rules/ --prune`,
		Args: a.refuseArguments,
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, _ []string) error {
		result, err := p.apply(ctx, client, a, true)
		if err == nil && len(result.Diff) > 0 {
			return cli.ExitError(cli.ExitDiffers)
		}
		return err
	})
	a.add(c)
	return c
}

func (p *program) apply(
	ctx context.Context, client *remote.Client, a *applyFlags, dryRun bool,
) (*edit.Result, error) {
	body, err := rulesfile.LoadAll(a.files, p.Stdin)
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
func (p *program) printDiff(list []edit.Difference) {
	for i := range list {
		p.Printf("%s %s %s\n", list[i].Action, list[i].Kind, list[i].ID)
		for line := range strings.Lines(list[i].Text) {
			p.Printf("  %s", line)
		}
	}
}

// showApplied prints the changes that were made, or that a dry run would make.
func (p *program) showApplied(result *edit.Result, out output.Format, dryRun bool) error {
	if out != output.Table {
		return p.Show(out, result, nil, nil)
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
	p.Printf(words, counts["create"], counts["update"], counts["delete"], result.Unchanged)
	p.Printf("; revision %d\n", result.Revision)
	return nil
}
