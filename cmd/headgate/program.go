package main

import (
	"context"
	"errors"
	"fmt"
	"io"

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

  # what would be decided?
  headgate check --rules rules.yaml --set user=alice --set path=/search`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
	})
	root.AddCommand(
		p.serveCommand(), p.checkCommand(), p.rulesCommand(), p.clientsCommand(), p.overridesCommand(), p.keysCommand(), p.nodesCommand(),
		p.tokensCommand(), p.webhooksCommand(), p.auditCommand(), p.contextCommand(), p.backupCommand(), p.restoreCommand(), p.schemaCommand(), p.versionCommand(),
	)
	root.CompletionOptions.HiddenDefaultCmd = false
	return root
}

// say writes to standard output. An error is one of whoever reads it, who is gone then.
func (p *program) say(format string, args ...any) { _, _ = fmt.Fprintf(p.stdout, format, args...) }

// An output is how results are written.
type output string

const (
	outputText output = "text"
	outputJSON output = "json"
)

// outputFlag adds --output to a command.
func outputFlag(c *cobra.Command, into *output) {
	*into = outputText
	c.Flags().VarP(into, "output", "o", "text or json")
	_ = c.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{string(outputText), string(outputJSON)}, cobra.ShellCompDirectiveNoFileComp
	})
}

func (o *output) String() string { return string(*o) }
func (o *output) Type() string   { return "FORMAT" }

func (o *output) Set(text string) error {
	switch output(text) {
	case outputText, outputJSON:
		*o = output(text)
		return nil
	default:
		return errors.New("want text or json")
	}
}
