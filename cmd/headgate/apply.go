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

// applyFlags are those of apply and diff.
type applyFlags struct {
	files []string
	prune bool
	base  int64
	out   format
}

func (a *applyFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVarP(&a.files, "file", "f", nil, "a rules `FILE`, a directory of them, or - for standard input; may be given several times")
	c.Flags().BoolVar(&a.prune, "prune", false, "the files are the whole truth: delete rules and clients that they do not have")
	c.Flags().Int64Var(&a.base, "revision", control.Any, "only if the namespace is at this `REVISION` (default whatever it is)")
	formatFlag(c, &a.out)
}

func (p *program) applyCommand(f *serverFlags) *cobra.Command {
	a := &applyFlags{}
	var dryRun bool
	c := &cobra.Command{
		Use:   "apply -f FILE...",
		Short: "Make the rules of a namespace what files say",
		Long: `Make the rules of a namespace what files say, in one change: all of it or nothing.

What is equal already is left alone, so that applying twice changes nothing. With --prune the files are the whole truth, as in
a repository that is applied by a pipeline; without, rules that they do not have stay. A file that has no clients says nothing of
clients: those that are registered stay. Files are checked here first, with the line of everything that is wrong.`,
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
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would change, and change nothing")
	noteFlag(c, f)
	return c
}

func (p *program) diffCommand(f *serverFlags) *cobra.Command {
	a := &applyFlags{}
	c := &cobra.Command{
		Use:   "diff -f FILE...",
		Short: "Say how files differ from the rules of a namespace",
		Long: `Say how files differ from the rules of a namespace: what "rules apply" would change. Nothing is changed.

The exit code is 0 if they are the same, 2 if they differ, 1 if something is wrong.`,
		Example: `  headgate rules diff -f rules.yaml
  headgate rules diff -f rules/ --prune`,
		Args: cobra.NoArgs,
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, _ []string) error {
		made, err := p.apply(ctx, at, a, true)
		if err == nil && len(made.Diff) > 0 {
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
	made, err := at.Apply(ctx, remote.Document{Body: body, Media: "application/json"}, a.prune, dryRun, a.base)
	if err != nil {
		return nil, err
	}
	return made, p.showApplied(made, a.out, dryRun)
}

// loadAll reads files, and those of directories, and returns them as one in JSON.
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
	listed := false // some file has a list of clients, be it empty
	for i, path := range paths {
		data, err := p.readAll(path)
		if err != nil {
			return nil, err
		}
		if docs[i], err = file.Parse(path, data); err != nil {
			return nil, err
		}
		if bytes.Contains(data, []byte("clients")) && !listed {
			read, err := source.Read(path, data)
			if err != nil {
				return nil, err
			}
			listed = read.Root != nil && read.Root.Field("clients") != nil
		}
	}
	if _, err := file.Compile(docs...); err != nil {
		return nil, err
	}
	whole := &file.Document{}
	for _, d := range docs {
		whole.Rules, whole.Clients = append(whole.Rules, d.Rules...), append(whole.Clients, d.Clients...)
	}
	if listed && len(whole.Clients) == 0 {
		return withoutClients(whole)
	}
	return whole.JSON(), nil
}

// withoutClients writes a document that says that there are no clients, which is more than to say nothing of them.
func withoutClients(d *file.Document) ([]byte, error) {
	made, err := source.Read("rules.json", d.JSON())
	if err != nil {
		return nil, err
	}
	made.Root.Fields = append(made.Root.Fields, source.Field{Name: "clients", Value: &source.Node{Kind: source.List}})
	return source.JSON(made.Root), nil
}

// rulesFiles returns a file, or those in a directory and below, by name; what begins with a dot is left out.
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

// sayDiff shows what becomes of each object.
func (p *program) sayDiff(list []remote.Diff) {
	for i := range list {
		p.say("%s %s %s\n", list[i].Action, list[i].Kind, list[i].ID)
		for line := range strings.Lines(list[i].Text) {
			p.say("  %s", line)
		}
	}
}

// showApplied says what came, or would come, of a change.
func (p *program) showApplied(made *remote.Applied, out format, dryRun bool) error {
	if out != formatTable {
		return p.show(out, made, nil, nil)
	}
	counts := map[string]int{}
	for _, d := range made.Diff {
		counts[d.Action]++
	}
	p.sayDiff(made.Diff)
	words := "created %d, updated %d, deleted %d, unchanged %d"
	if dryRun {
		words = "would create %d, update %d, delete %d, leave %d unchanged"
	}
	p.say(words, counts["create"], counts["update"], counts["delete"], made.Unchanged)
	p.say("; revision %d\n", made.Revision)
	return nil
}

func (p *program) importCommand(f *serverFlags) *cobra.Command {
	var prune bool
	var out format
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Register many clients at once",
		Long: `Register many clients at once: a line of JSON for each client, or a rules file that has clients. - is standard input.

Clients that are registered already become what the file says. With --prune those that the file does not have are removed.`,
		Example: `  headgate clients import clients.ndjson
  echo '{"id":"acme","limits":["500/s"]}' | headgate clients import -`,
		Args: cobra.ExactArgs(1),
	}
	c.RunE = p.calling(f, func(ctx context.Context, at *remote.Client, args []string) error {
		from, err := p.clientsFrom(args[0])
		if err != nil {
			return err
		}
		defer func() { _ = from.Close() }() // it was read
		made, err := at.Import(ctx, from, prune)
		if err != nil {
			return err
		}
		if out != formatTable {
			return p.show(out, made, nil, nil)
		}
		p.say("%s: created %d, updated %d, deleted %d, unchanged %d; revision %d\n",
			number(made.Clients, "client"), made.Created, made.Updated, made.Deleted, made.Unchanged, made.Revision)
		return nil
	})
	c.Flags().BoolVar(&prune, "prune", false, "the file is the whole truth: remove clients that it does not have")
	noteFlag(c, f)
	formatFlag(c, &out)
	return c
}

// clientsFrom opens a file of clients: lines of JSON, or those of a rules file made into such lines.
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
