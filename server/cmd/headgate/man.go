package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/manpage"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
)

func (p *program) manCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "man [COMMAND...]",
		Short: "Print a manual page, or write all of them",
		Long: `Print the manual page of a command in roff. With --dir, write the pages of all commands. Packages of Headgate
already contain the pages: "man headgate-serve" shows one.`,
		Example: `  # read the page of a command
  headgate man rules lint | man -l -

  # install all pages for this user
  headgate man --dir ~/.local/share/man/man1`,
		RunE: func(c *cobra.Command, args []string) error { return p.man(c.Root(), args, dir) },
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			found, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, sub := range found.Commands() {
				if sub.IsAvailableCommand() {
					names = append(names, sub.Name()+"\t"+sub.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "write the pages of all commands to this `DIR`, which is created")
	_ = c.MarkFlagDirname("dir") // the flag exists
	return c
}

func (p *program) man(root *cobra.Command, args []string, dir string) error {
	build := currentBuild()
	footer := manpage.Footer{Version: build.Version}
	if date, err := time.Parse(time.RFC3339, build.Date); err == nil {
		footer.Date = date
	}
	if dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		pages, err := manpage.WriteAll(dir, root, footer)
		if err != nil {
			return err
		}
		p.Printf("%s in %s\n", output.Plural(pages, "page"), dir)
		return nil
	}
	found, rest, err := root.Find(args)
	if err != nil || len(rest) > 0 {
		name := ""
		if len(rest) > 0 {
			name = rest[0]
		}
		return unknownCommandError(found, name)
	}
	p.Printf("%s", manpage.Page(found, footer))
	return nil
}
