package manage

import (
	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/tryrules"
)

func (p *program) rulesCommand() *cobra.Command {
	f := &cli.ServerFlags{}
	c := &cobra.Command{
		Use:   "rules",
		Short: "Check and test rules files, and change the rules of a rules service",
		Long: `Check and test rules files with lint, test and whatif, which need no server, and read and change the rules of a
rules service.`,
		Example: `  headgate rules lint rules.yaml
  headgate rules test rules_test.yaml
  headgate rules list
  headgate rules apply -f rules/ --prune --dry-run`,
	}
	p.AddServerFlags(c, f)
	c.AddCommand(
		p.listCommand(&ruleKind, f), p.getCommand(&ruleKind, f), p.deleteCommand(&ruleKind, f), p.applyCommand(f),
		p.diffCommand(f), p.historyCommand(f), p.rollbackCommand(f),
	)
	c.AddCommand(tryrules.RulesCommands(p.Program, f)...)
	return c
}
