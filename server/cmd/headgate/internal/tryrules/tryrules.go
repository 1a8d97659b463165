// Package tryrules has the commands that show what rules decide and change nothing in a rules service: check and
// explain for one request, and below "headgate rules" lint, test and whatif.
package tryrules

import (
	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
)

type commands struct{ *cli.Program }

// Commands returns the commands check and explain.
func Commands(program *cli.Program) []*cobra.Command {
	p := &commands{program}
	return []*cobra.Command{p.checkCommand(), p.explainCommand()}
}

// RulesCommands returns the subcommands of "headgate rules". The flags are those of that command.
func RulesCommands(program *cli.Program, f *cli.ServerFlags) []*cobra.Command {
	p := &commands{program}
	return []*cobra.Command{p.lintCommand(), p.testCommand(), p.whatIfCommand(f)}
}
