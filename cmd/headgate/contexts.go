package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/headgate/headgate/control/remote"
)

// A place is a rules service and how to talk to it.
type place struct {
	Server    string `yaml:"server" json:"server"`
	TokenFile string `yaml:"token_file,omitempty" json:"token_file,omitempty"`
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	CAFile    string `yaml:"ca_file,omitempty" json:"ca_file,omitempty"`
}

// contexts are the places that somebody works with, by name.
type contexts struct {
	Current  string           `yaml:"current,omitempty"`
	Contexts map[string]place `yaml:"contexts"`
}

// errNoHome is for contexts that can be nowhere.
var errNoHome = errors.New("contexts: neither HOME nor XDG_CONFIG_HOME is set: say where to keep them with HEADGATE_CONTEXTS")

// contextsPath is where they are kept.
func (p *program) contextsPath() (string, error) {
	if path := p.getenv("HEADGATE_CONTEXTS"); path != "" {
		return path, nil
	}
	dir := p.getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home := p.getenv("HOME")
		if home == "" {
			return "", errNoHome
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "headgate", "contexts.yaml"), nil
}

// readContexts returns those that are kept, none if there is no file.
func (p *program) readContexts() (contexts, error) {
	kept := contexts{Contexts: map[string]place{}}
	path, err := p.contextsPath()
	if err != nil {
		return kept, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return kept, nil
	}
	if err != nil {
		return kept, fmt.Errorf("contexts: %w", err)
	}
	if err := yaml.UnmarshalWithOptions(data, &kept, yaml.Strict()); err != nil {
		return kept, fmt.Errorf("contexts: %s: %w", path, err)
	}
	if kept.Contexts == nil {
		kept.Contexts = map[string]place{}
	}
	return kept, nil
}

// writeContexts keeps them, whole or not at all.
func (p *program) writeContexts(kept contexts) error {
	path, err := p.contextsPath()
	if err != nil {
		return err
	}
	data, err := yaml.Marshal(kept)
	if err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	if err := writeWhole(path, data, 0o600); err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	return nil
}

// writeWhole replaces a file by one with other contents.
func writeWhole(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".headgate-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// changeContext changes what is kept, if there is a context of that name.
func (p *program) changeContext(name string, change func(*contexts)) error {
	kept, err := p.readContexts()
	if err != nil {
		return err
	}
	if _, ok := kept.Contexts[name]; !ok {
		return fmt.Errorf("there is no context %q: want one of %q", name, slices.Sorted(maps.Keys(kept.Contexts)))
	}
	change(&kept)
	return p.writeContexts(kept)
}

func (p *program) contextCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "context",
		Short: "Remember rules services by name",
		Long: `Remember rules services by name, so that --server, --token-file and --namespace need not be given each time.

They are kept in ~/.config/headgate/contexts.yaml, or where HEADGATE_CONTEXTS says. Tokens are not: the file names the files that
hold them. --context NAME uses another than the current one for one command.`,
		Example: `  headgate context set production --server https://rules.example.com:8084 --token-file ~/.headgate/production --namespace shop
  headgate context use production
  headgate context list`,
	}
	c.AddCommand(p.setContextCommand(), p.useContextCommand(), p.listContextsCommand(), p.removeContextCommand())
	return c
}

func (p *program) setContextCommand() *cobra.Command {
	var made place
	c := &cobra.Command{
		Use:     "set NAME --server URL",
		Short:   "Remember a rules service, or change what is remembered",
		Example: `  headgate context set staging --server http://127.0.0.1:8084 --token-file ./admin-token`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			kept, err := p.readContexts()
			if err != nil {
				return err
			}
			if _, err := remote.New(remote.Config{URL: made.Server}); err != nil {
				return errors.New("--server: want the URL of a rules service, such as https://rules.example.com:8084")
			}
			for _, path := range []*string{&made.TokenFile, &made.CAFile} { // the next command may run elsewhere
				if *path != "" {
					if *path, err = filepath.Abs(*path); err != nil {
						return err
					}
				}
			}
			kept.Contexts[args[0]] = made
			if kept.Current == "" {
				kept.Current = args[0]
			}
			if err := p.writeContexts(kept); err != nil {
				return err
			}
			p.say("context %s is %s%s\n", args[0], made.Server, current(kept.Current == args[0]))
			return nil
		},
	}
	c.Flags().StringVar(&made.Server, "server", "", "`URL` of the rules service")
	c.Flags().StringVar(&made.TokenFile, "token-file", "", "`FILE` that holds a token")
	c.Flags().StringVar(&made.Namespace, "namespace", "", "`NAME` of the service whose rules are meant")
	c.Flags().StringVar(&made.CAFile, "ca-file", "", "`FILE` with the certificates to trust, PEM")
	return c
}

// current says that a context is the current one.
func current(is bool) string {
	if is {
		return ", the current one"
	}
	return ""
}

func (p *program) useContextCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "use NAME",
		Short:             "Make a context the current one",
		Example:           `  headgate context use production`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := p.changeContext(args[0], func(kept *contexts) { kept.Current = args[0] }); err != nil {
				return err
			}
			p.say("%s is the current context\n", args[0])
			return nil
		},
	}
}

func (p *program) removeContextCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "remove NAME",
		Short:             "Forget a context",
		Example:           `  headgate context remove staging`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			err := p.changeContext(args[0], func(kept *contexts) {
				delete(kept.Contexts, args[0])
				if kept.Current == args[0] {
					kept.Current = ""
				}
			})
			if err == nil {
				p.say("forgot context %s\n", args[0])
			}
			return err
		},
	}
}

func (p *program) listContextsCommand() *cobra.Command {
	var out format
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the contexts; * is the current one",
		Example: `  headgate context list`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			kept, err := p.readContexts()
			if err != nil {
				return err
			}
			type listed struct {
				Name    string `json:"name"`
				Current bool   `json:"current"`
				place
			}
			list := []listed{}
			rows := [][]string{}
			for _, name := range slices.Sorted(maps.Keys(kept.Contexts)) {
				at, mark := kept.Contexts[name], ""
				if name == kept.Current {
					mark = "*"
				}
				list = append(list, listed{name, mark != "", at})
				rows = append(rows, []string{mark, name, at.Server, dash(at.Namespace), dash(at.TokenFile)})
			}
			return p.show(out, list, []string{"", "NAME", "SERVER", "NAMESPACE", "TOKEN FILE"}, rows)
		},
	}
	formatFlag(c, &out)
	return c
}

func (p *program) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	kept, err := p.readContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(kept.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
