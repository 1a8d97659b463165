package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// A program is one run of the command, with what it has of the world.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
}

// The exit codes.
const (
	exitOK      = 0
	exitError   = 1 // something is wrong: a flag, a file, a server, rules that lint or test refuse
	exitDiffers = 2 // rules diff: there is a difference
	exitDenied  = 3 // check: the request is denied
)

// An exitCodeError is an error that has been said already, and the code to exit with.
type exitCodeError int

func (s exitCodeError) Error() string { return fmt.Sprintf("exit %d", int(s)) }

// run runs the command with its arguments and returns the code to exit with.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.rootCommand()
	root.SetArgs(args)
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err := root.ExecuteContext(ctx)
	var status exitCodeError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return int(status)
	default:
		_, _ = fmt.Fprintln(p.stderr, "headgate: "+err.Error())
		return exitError
	}
}

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "headgate",
		Short: "Decide how much of a service each client may take",
		Long: `Headgate decides, for every request, how much of a service each client may take.

Without a file, "headgate serve" runs a gateway on port 8080 in front of a built-in service, to see what it does.
With --upstream and --rules it protects yours.`,
		Example: `  # see it: a gateway before a built-in service
  headgate serve

  # protect a service with rules of your own
  headgate serve --upstream http://localhost:9000 --rules rules.yaml

  # what would be decided, and by which rules?
  headgate check --rules rules.yaml --set user=alice --set path=/search
  headgate explain --rules rules.yaml --set user=alice --set path=/search`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	built := thisBuild()
	root.Version = built.String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if before := c.Flags().Args(); c.HasParent() && c.HasSubCommands() && len(before) > 0 { // the flag may be one of the command that is meant
			return unknownCommand(c, before[0])
		}
		return fmt.Errorf("%w%s; see %s --help", err, suggestFlag(c, err), c.CommandPath())
	})
	root.AddCommand(
		p.serveCommand(), p.checkCommand(), p.explainCommand(), p.rulesCommand(), p.clientsCommand(), p.overridesCommand(), p.keysCommand(), p.nodesCommand(),
		p.tokensCommand(), p.webhooksCommand(), p.auditCommand(), p.contextCommand(), p.backupCommand(), p.restoreCommand(), p.schemaCommand(), p.versionCommand(),
	)
	root.CompletionOptions.HiddenDefaultCmd = false
	p.addCompletion(root)
	explainArgs(root)
	return root
}

// explainArgs has commands say in plain words what arguments they want, and those that are but groups of others refuse what none of
// them is called: in a pipeline, a command that is misspelt must not pass for one that was run.
func explainArgs(c *cobra.Command) {
	for _, below := range c.Commands() {
		explainArgs(below)
	}
	switch {
	case !c.HasParent(): // cobra says it
	case c.HasSubCommands():
		c.Args = cobra.ArbitraryArgs
		alone := c.RunE // what it does without any of them
		if alone == nil {
			alone = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return alone(c, args)
			}
			return unknownCommand(c, args[0])
		}
	case c.Args != nil:
		check := c.Args
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if err == nil || !strings.HasPrefix(err.Error(), "accepts") && !strings.HasPrefix(err.Error(), "requires") { // how many
				return err
			}
			return fmt.Errorf("got %s, want: %s %s; see %s --help", number(len(args), "argument"), c.Parent().CommandPath(), c.Use, c.CommandPath())
		}
	}
}

// unknownCommand says that a command has none of a name below it.
func unknownCommand(c *cobra.Command, name string) error {
	text := fmt.Sprintf("unknown command %q for %q", name, c.CommandPath())
	c.SuggestionsMinimumDistance = 1
	if like := c.SuggestionsFor(name); len(like) > 0 {
		text += ", which has " + strings.Join(like, " and ")
	}
	return fmt.Errorf("%s; see %s --help", text, c.CommandPath())
}

// say writes to standard output. An error is one of whoever reads it, who is gone then.
func (p *program) say(format string, args ...any) { _, _ = fmt.Fprintf(p.stdout, format, args...) }
