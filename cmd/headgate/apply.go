package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/remote"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/source"
)

// applyFlags are the flags of the commands apply and diff.
type applyFlags struct {
	files []string
	prune bool
	base  int64
	out   format
}

func (a *applyFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVarP(&a.files, "file", "f", nil, "a rules `FILE`, a directory of rules files, or - for standard input; can be repeated")
	c.Flags().BoolVar(&a.prune, "prune", false, "delete rules and clients that are not in the files")
	c.Flags().Int64Var(&a.base, "revision", control.Any, "only if the namespace is at this `REVISION` (default any)")
	formatFlag(c, &a.out)
}

func (p *program) applyCommand(f *serverFlags) *cobra.Command {
	a := &applyFlags{}
	var dryRun bool
	c := &cobra.Command{
		Use:   "apply -f FILE...",
		Short: "Create and update the rules of a namespace from files",
		Long: `Create and update the rules of a namespace from files, in one change: all of it or nothing.

Rules that are already equal are not changed, so applying twice has no effect. With --prune, rules that are not in the files are
deleted: use it if a pipeline applies all rules from a repository. Registered clients change only if a file has a list of
clients. The files are validated before anything is sent, and each error is shown with its line.`,
		Example: `  headgate rules apply -f rules.yaml
  headgate rules apply -f rules/ --prune --note "search is slow"
  headgate rules apply -f rules/ --prune --dry-run`,
		Args: cobra.NoArgs,
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, _ []string) error {
		_, err := p.apply(ctx, at, a, dryRun)
		return err
	})
	a.add(c)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change, and change nothing")
	noteFlag(c, f)
	return c
}

func (p *program) diffCommand(f *serverFlags) *cobra.Command {
	a := &applyFlags{}
	c := &cobra.Command{
		Use:   "diff -f FILE...",
		Short: "Show how files differ from the rules of a namespace",
		Long: `Show how files differ from the rules of a namespace: the changes that "rules apply" would make. Nothing is changed.

The exit code is 0 if they are the same, 2 if they differ, and 1 on an error.`,
		Example: `  headgate rules diff -f rules.yaml
  headgate rules diff -f rules/ --prune`,
		Args: cobra.NoArgs,
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, _ []string) error {
		result, err := p.apply(ctx, at, a, true)
		if err == nil && len(result.Diff) > 0 {
			return exitCodeError(exitDiffers)
		}
		return err
	})
	a.add(c)
	return c
}

func (p *program) apply(ctx context.Context, at *remote.Client, a *applyFlags, dryRun bool) (*remote.Applied, error) {
	body, err := p.loadAll(a.files)
	if err != nil {
		return nil, err
	}
	result, err := at.Apply(ctx, remote.Document{Body: body, Media: "application/json"}, a.prune, dryRun, a.base)
	if err != nil {
		return nil, err
	}
	return result, p.showApplied(result, a.out, dryRun)
}

// loadAll reads rules files and directories of them, and returns them as one document in JSON.
func (p *program) loadAll(names []string) ([]byte, error) {
	if len(names) == 0 {
		return nil, errors.New("no file: want -f FILE, -f DIRECTORY or -f -")
	}
	var paths []string
	for _, name := range names {
		found, err := rulesFiles(name)
		if err != nil {
			return nil, err
		}
		paths = append(paths, found...)
	}
	docs := make([]*file.Document, len(paths))
	hasClients := false // a file has a list of clients, perhaps an empty one
	for i, path := range paths {
		data, err := p.readAll(path)
		if err != nil {
			return nil, err
		}
		if docs[i], err = file.Parse(path, data); err != nil {
			return nil, err
		}
		if bytes.Contains(data, []byte("clients")) && !hasClients {
			read, err := source.Read(path, data)
			if err != nil {
				return nil, err
			}
			hasClients = read.Root != nil && read.Root.Field("clients") != nil
		}
	}
	if _, err := file.Compile(docs...); err != nil {
		return nil, err
	}
	whole := &file.Document{}
	for _, d := range docs {
		whole.Rules, whole.Clients = append(whole.Rules, d.Rules...), append(whole.Clients, d.Clients...)
	}
	if hasClients && len(whole.Clients) == 0 {
		return withEmptyClients(whole)
	}
	return whole.JSON(), nil
}

// withEmptyClients returns a document in JSON with an empty list of clients. Without the list, the service would leave
// the registered clients alone.
func withEmptyClients(d *file.Document) ([]byte, error) {
	parsed, err := source.Read("rules.json", d.JSON())
	if err != nil {
		return nil, err
	}
	parsed.Root.Fields = append(parsed.Root.Fields, source.Field{Name: "clients", Value: &source.Node{Kind: source.List}})
	return source.JSON(parsed.Root), nil
}

// rulesFiles returns the path of a file, or the paths of all rules files in a directory and its subdirectories, sorted.
// It skips names that begin with a dot.
func rulesFiles(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var found []string
	err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != name && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			found = append(found, path)
		}
		return nil
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: no file that ends in .yaml, .yml or .json", name)
	}
	return found, err
}

// sayDiff prints the changes of each object.
func (p *program) sayDiff(list []remote.Diff) {
	for i := range list {
		p.say("%s %s %s\n", list[i].Action, list[i].Kind, list[i].ID)
		for line := range strings.Lines(list[i].Text) {
			p.say("  %s", line)
		}
	}
}

// showApplied prints the changes that were made, or that a dry run would make.
func (p *program) showApplied(result *remote.Applied, out format, dryRun bool) error {
	if out != formatTable {
		return p.show(out, result, nil, nil)
	}
	counts := map[string]int{}
	for _, d := range result.Diff {
		counts[d.Action]++
	}
	p.sayDiff(result.Diff)
	words := "created %d, updated %d, deleted %d, unchanged %d"
	if dryRun {
		words = "would create %d, update %d, delete %d, leave %d unchanged"
	}
	p.say(words, counts["create"], counts["update"], counts["delete"], result.Unchanged)
	p.say("; revision %d\n", result.Revision)
	return nil
}

func (p *program) importCommand(f *serverFlags) *cobra.Command {
	var prune bool
	var out format
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Register many clients at once",
		Long: `Register many clients at once. FILE has a line of JSON for each client, or is a rules file with clients. - is standard input.

Clients that are already registered are updated. With --prune, clients that are not in the file are removed.`,
		Example: `  headgate clients import clients.ndjson
  echo '{"id":"acme","limits":["500/s"]}' | headgate clients import -`,
		Args: cobra.ExactArgs(1),
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, args []string) error {
		from, err := p.clientsFrom(args[0])
		if err != nil {
			return err
		}
		defer func() { _ = from.Close() }() // only read, so an error to close loses nothing
		result, err := at.Import(ctx, from, prune)
		if err != nil {
			return err
		}
		if out != formatTable {
			return p.show(out, result, nil, nil)
		}
		p.say("%s: created %d, updated %d, deleted %d, unchanged %d; revision %d\n",
			number(result.Clients, "client"), result.Created, result.Updated, result.Deleted, result.Unchanged, result.Revision)
		return nil
	})
	c.Flags().BoolVar(&prune, "prune", false, "remove clients that are not in the file")
	noteFlag(c, f)
	formatFlag(c, &out)
	return c
}

// clientsFrom opens a file with a line of JSON for each client. The clients of a rules file are converted to such lines.
func (p *program) clientsFrom(name string) (io.ReadCloser, error) {
	if ext := filepath.Ext(name); ext == ".yaml" || ext == ".yml" || ext == ".json" {
		doc, err := file.Load(name)
		if err != nil {
			return nil, err
		}
		var lines bytes.Buffer
		for _, client := range doc.Clients {
			lines.Write(control.ClientBody(client))
			lines.WriteByte('\n')
		}
		return io.NopCloser(&lines), nil
	}
	if name == "-" {
		return io.NopCloser(p.stdin), nil
	}
	return os.Open(name)
}
