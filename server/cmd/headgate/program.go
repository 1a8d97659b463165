package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
)

// A program is one run of the command, with its input, output and environment.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
}

// The exit codes.
const (
	exitOK      = 0
	exitError   = 1 // an error, or rules that lint or test refuse
	exitDiffers = 2 // rules diff: the files differ from the rules service
	exitDenied  = 3 // check: the request is denied
)

// An exitCodeError is the exit code of a command that has already printed why it failed.
type exitCodeError int

func (s exitCodeError) Error() string { return fmt.Sprintf("exit %d", int(s)) }

// run runs the command with its arguments and returns the exit code.
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
	build := currentBuild()
	root.Version = build.String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		// After an unknown subcommand, a flag is unknown too, because it is one of the command that was meant.
		if args := c.Flags().Args(); c.HasParent() && c.HasSubCommands() && len(args) > 0 {
			return unknownCommandError(c, args[0])
		}
		return fmt.Errorf("%w%s; see %s --help", err, suggestFlag(c, err), c.CommandPath())
	})
	root.AddCommand(
		p.serveCommand(), p.checkCommand(), p.explainCommand(), p.rulesCommand(), p.clientsCommand(), p.overridesCommand(),
		p.keysCommand(), p.topCommand(), p.trafficCommand(), p.enforceCommand(), p.nodesCommand(), p.tokensCommand(),
		p.webhooksCommand(), p.auditCommand(), p.contextCommand(),
		p.backupCommand(), p.restoreCommand(), p.schemaCommand(), p.versionCommand(),
		p.doctorCommand(), p.docsCommand(), p.manCommand(), p.simulateCommand(),
	)
	root.CompletionOptions.HiddenDefaultCmd = false
	root.AddCommand(p.measuringCommands()...)
	p.setBashCompletion(root)
	setArgErrors(root)
	return root
}

// setArgErrors makes commands return errors that show the arguments they want. A command with subcommands returns an
// error for an unknown one, so that a misspelt command fails in a pipeline; cobra would print the help and succeed.
func setArgErrors(c *cobra.Command) {
	for _, sub := range c.Commands() {
		setArgErrors(sub)
	}
	switch {
	case !c.HasParent(): // cobra does it for the root
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
			return fmt.Errorf("got %s, want: %s %s; see %s --help",
				output.Plural(len(args), "argument"), c.Parent().CommandPath(), c.Use, c.CommandPath())
		}
	}
}

// unknownCommandError returns the error for a subcommand that does not exist.
func unknownCommandError(c *cobra.Command, name string) error {
	text := fmt.Sprintf("unknown command %q for %q", name, c.CommandPath())
	c.SuggestionsMinimumDistance = 1
	if similar := c.SuggestionsFor(name); len(similar) > 0 {
		text += ", which has " + strings.Join(similar, " and ")
	}
	return fmt.Errorf("%s; see %s --help", text, c.CommandPath())
}

// printf writes to standard output. It ignores errors: the reader is gone then.
func (p *program) printf(format string, args ...any) { _, _ = fmt.Fprintf(p.stdout, format, args...) }

// show writes value as JSON or YAML, or rows as a table, to standard output.
func (p *program) show(f output.Format, value any, header []string, rows [][]string) error {
	return output.Write(p.stdout, f, value, header, rows)
}
