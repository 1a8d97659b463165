// Package manage has the commands that use a rules service. They read and change its rules, clients, overrides, tokens,
// webhooks and nodes, read and reset the counters and statistics of its nodes, and back up its database. "headgate
// context" saves the addresses of rules services.
package manage

import (
	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
)

type program struct{ *cli.Program }

// Commands returns the commands of this package.
func Commands(base *cli.Program) []*cobra.Command {
	p := &program{base}
	return []*cobra.Command{
		p.rulesCommand(), p.clientsCommand(), p.overridesCommand(), p.keysCommand(), p.topCommand(), p.trafficCommand(),
		p.enforceCommand(), p.alertsCommand(), p.nodesCommand(), p.tokensCommand(), p.webhooksCommand(), p.auditCommand(),
		p.contextCommand(), p.backupCommand(), p.restoreCommand(),
	}
}
