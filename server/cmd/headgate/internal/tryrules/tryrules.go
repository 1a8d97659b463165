// Package tryrules implements the commands that evaluate rules without changing them: check and explain for one
// request, and the subcommands lint, test and whatif of "headgate rules".
package tryrules

import (
	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
)

type program struct{ *cli.Program }

// Commands returns the commands check and explain.
func Commands(base *cli.Program) []*cobra.Command {
	p := &program{base}
	return []*cobra.Command{p.checkCommand(), p.explainCommand()}
}

// RulesCommands returns the subcommands lint, test and whatif of "headgate rules". f has the values of the parent's
// flags, which select a rules service.
func RulesCommands(base *cli.Program, f *cli.ServerFlags) []*cobra.Command {
	p := &program{base}
	return []*cobra.Command{p.lintCommand(), p.testCommand(), p.whatIfCommand(f)}
}
