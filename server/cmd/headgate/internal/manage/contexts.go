package manage

import (
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/contexts"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control/remote"
)

func (p *program) writeContexts(file contexts.File) error {
	path, err := contexts.Path(p.Getenv)
	if err != nil {
		return err
	}
	return file.Write(path)
}

// changeContext changes the file with the contexts. It returns an error if there is no context with that name.
func (p *program) changeContext(name string, change func(*contexts.File)) error {
	file, err := p.ReadContexts()
	if err != nil {
		return err
	}
	if _, ok := file.Contexts[name]; !ok {
		return file.Unknown(name)
	}
	change(&file)
	return p.writeContexts(file)
}

func (p *program) contextCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "context",
		Short: "Save rules services by name",
		Long: `Save rules services by name, so that commands need no --server, --token-file and --namespace.

Contexts are saved in ~/.config/headgate/contexts.yaml, or in the file of HEADGATE_CONTEXTS. That file has the paths
of token files, not the tokens. --context NAME selects another context for one command.`,
		Example: `  headgate context set production --server https://rules.example.com:8084 --token-file ~/.headgate/production --namespace shop
  headgate context use production
  headgate context list`,
	}
	c.AddCommand(p.setContextCommand(), p.useContextCommand(), p.listContextsCommand(), p.removeContextCommand())
	return c
}

func (p *program) setContextCommand() *cobra.Command {
	var target contexts.Target
	c := &cobra.Command{
		Use:     "set NAME --server URL",
		Short:   "Create or replace a context",
		Example: `  headgate context set staging --server http://127.0.0.1:8084 --token-file ./admin-token`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := p.ReadContexts()
			if err != nil {
				return err
			}
			if _, err := remote.New(remote.Config{URL: target.Server}); err != nil {
				return errors.New("--server: want the URL of a rules service, such as https://rules.example.com:8084")
			}
			for _, path := range []*string{&target.TokenFile, &target.CAFile} {
				if *path == "" {
					continue
				}
				if *path, err = filepath.Abs(*path); err != nil { // the next command may run in another directory
					return err
				}
			}
			file.Contexts[args[0]] = target
			if file.Current == "" {
				file.Current = args[0]
			}
			if err := p.writeContexts(file); err != nil {
				return err
			}
			suffix := ""
			if file.Current == args[0] {
				suffix = ", the current one"
			}
			p.Printf("context %s is %s%s\n", args[0], target.Server, suffix)
			return nil
		},
	}
	c.Flags().StringVar(&target.Server, "server", "", "`URL` of the rules service")
	c.Flags().StringVar(&target.TokenFile, "token-file", "", "`FILE` that holds a token")
	c.Flags().StringVar(&target.Namespace, "namespace", "", "`NAME` of the namespace")
	c.Flags().StringVar(&target.CAFile, "ca-file", "", "`FILE` with the certificates to trust, PEM")
	return c
}

func (p *program) useContextCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "use NAME",
		Short:             "Make a context the current one",
		Example:           `  headgate context use production`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.CompleteContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := p.changeContext(args[0], func(file *contexts.File) { file.Current = args[0] }); err != nil {
				return err
			}
			p.Printf("%s is the current context\n", args[0])
			return nil
		},
	}
}

func (p *program) removeContextCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "remove NAME",
		Short:             "Delete a context",
		Example:           `  headgate context remove staging`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.CompleteContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			err := p.changeContext(args[0], func(file *contexts.File) {
				delete(file.Contexts, args[0])
				if file.Current == args[0] {
					file.Current = ""
				}
			})
			if err == nil {
				p.Printf("removed context %s\n", args[0])
			}
			return err
		},
	}
}

func (p *program) listContextsCommand() *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the contexts; * is the current one",
		Example: `  headgate context list`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			file, err := p.ReadContexts()
			if err != nil {
				return err
			}
			type listed struct {
				Name    string `json:"name"`
				Current bool   `json:"current"`
				contexts.Target
			}
			list := []listed{}
			rows := [][]string{}
			for _, name := range file.Names() {
				target, mark := file.Contexts[name], ""
				if name == file.Current {
					mark = "*"
				}
				list = append(list, listed{name, mark != "", target})
				rows = append(rows, []string{
					mark, name, target.Server, output.OrDash(target.Namespace),
					output.OrDash(target.TokenFile),
				})
			}
			return p.Show(out, list, []string{"", "NAME", "SERVER", "NAMESPACE", "TOKEN FILE"}, rows)
		},
	}
	output.AddFlag(c, &out)
	return c
}
