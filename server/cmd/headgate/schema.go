package main

import (
	"github.com/spf13/cobra"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
)

func (p *program) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema rules|config",
		Short: "Print the JSON Schema of rules files or of the configuration",
		Long: `Print the JSON Schema of rules files or of the configuration.

Editors use it to complete and check files. For the YAML language server, write this in the first line of a file:

  # yaml-language-server: $schema=./rules.schema.json`,
		Example: `  headgate schema rules > rules.schema.json
  headgate schema config > headgate.schema.json`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"rules", "config"},
		RunE: func(_ *cobra.Command, args []string) error {
			text := rules.Schema()
			if args[0] == "config" {
				text = config.Schema()
			}
			_, err := p.Stdout.Write(text)
			return err
		},
	}
}
