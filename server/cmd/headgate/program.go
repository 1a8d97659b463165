package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/manage"
	"github.com/headgate/headgate/server/cmd/headgate/internal/measure"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/cmd/headgate/internal/tryrules"
)

// A program is the headgate command with its inputs and outputs.
type program struct{ cli.Program }

func newProgram(p cli.Program) *program {
	p.Version = currentBuild().Version
	return &program{p}
}

// run runs the command with its arguments and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.rootCommand()
	root.SetArgs(args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	err := root.ExecuteContext(ctx)
	var status cli.ExitError
	switch {
	case err == nil:
		return cli.ExitOK
	case errors.As(err, &status):
		return int(status)
	default:
		_, _ = fmt.Fprintln(p.Stderr, "headgate: "+err.Error())
		return cli.ExitFailure
	}
}

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "headgate",
		Short: "Limit how much of a service each client may use",
		Long: `Headgate decides, for every request, how much of a service each client may use.

Without options, "headgate serve" runs a gateway on port 8080 in front of a built-in demo service.
With --upstream and --rules it protects your service.`,
		Example: `  # try it: a gateway in front of a built-in demo service
  headgate serve

  # protect your service with your rules
  headgate serve --upstream http://localhost:9000 --rules rules.yaml

  # show what would be decided, and by which rules
  headgate check --rules rules.yaml --set user=alice --set path=/search
  headgate explain --rules rules.yaml --set user=alice --set path=/search`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	// Cobra's default template prints "headgate version " before the version, so trim the prefix. A custom template would
	// add 15 MB to the program: templates can call any method, so the linker would keep all methods of all types.
	build := currentBuild()
	root.Version = strings.TrimPrefix(build.String(), "headgate ")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		// If the subcommand is misspelt, its flags are unknown, too. Report the subcommand, not the flag.
		if args := c.Flags().Args(); c.HasParent() && c.HasSubCommands() && len(args) > 0 {
			return unknownCommandError(c, args[0])
		}
		return fmt.Errorf("%w%s; see %s --help", err, suggestFlag(c, err), c.CommandPath())
	})
	root.AddCommand(
		p.serveCommand(), p.doctorCommand(), p.schemaCommand(), p.versionCommand(), p.docsCommand(), p.manCommand(),
	)
	root.AddCommand(manage.Commands(&p.Program)...)
	root.AddCommand(tryrules.Commands(&p.Program)...)
	root.AddCommand(measure.Commands(&p.Program)...)
	root.CompletionOptions.HiddenDefaultCmd = false
	p.setBashCompletion(root)
	setArgErrors(root)
	return root
}

// setArgErrors sets the functions that check the arguments of c and its subcommands. Errors then show the usage line.
// An unknown subcommand becomes an error, so that a misspelt command fails in a pipeline. Cobra would print the help
// and succeed.
func setArgErrors(c *cobra.Command) {
	for _, sub := range c.Commands() {
		setArgErrors(sub)
	}
	switch {
	case !c.HasParent(): // cobra itself rejects unknown commands of the root
	case c.HasSubCommands():
		c.Args = cobra.ArbitraryArgs
		run := c.RunE
		if run == nil {
			run = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return run(c, args)
			}
			return unknownCommandError(c, args[0])
		}
	case c.Args != nil:
		check := c.Args
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			// cobra's errors about the number of arguments begin with one of these words.
			if err == nil || !strings.HasPrefix(err.Error(), "accepts") && !strings.HasPrefix(err.Error(), "requires") {
				return err
			}
			return fmt.Errorf("got %s; usage: %s %s; see %s --help",
				output.Plural(len(args), "argument"), c.Parent().CommandPath(), c.Use, c.CommandPath())
		}
	}
}

// unknownCommandError returns the error for a subcommand that does not exist.
func unknownCommandError(c *cobra.Command, name string) error {
	c.SuggestionsMinimumDistance = 1
	similar := strings.Join(c.SuggestionsFor(name), " or ")
	if similar == "" {
		return fmt.Errorf("unknown command %q for %q; see %[2]s --help", name, c.CommandPath())
	}
	return fmt.Errorf("unknown command %q for %q, did you mean %s? See %[2]s --help", name, c.CommandPath(), similar)
}
