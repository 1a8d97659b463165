package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/internal/terminal"
	"github.com/headgate/headgate/server/tour"
)

func (p *program) demoCommand() *cobra.Command {
	var flood time.Duration
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show in the terminal what the algorithms do",
		Long: `Show in the terminal what Headgate does, with a real store in this process:

  1  a noisy neighbour: one client floods, three stay below their limits; in real time
  2  one burst through every algorithm, and what passes; in virtual time
  3  the worked examples of the documentation: a bucket of 10, three hosts, window borders
  4  how many decisions a second this machine makes

On a terminal, the view is live and in color. In a pipe, or with NO_COLOR set, the command prints plain lines.

The exit code is 0, or 130 after Ctrl-C.`,
		Example: `  headgate demo
  headgate demo --for 2s | less`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if flood <= 0 {
				return fmt.Errorf("--for %v: want a time such as 6s", flood)
			}
			ctx, stop := cli.UntilInterrupted(c.Context())
			defer stop()
			err := tour.Run(ctx, tour.Options{Out: p.Stdout, Live: terminal.CanRedraw(p.Stdout, p.Environ), Flood: flood})
			if errors.Is(err, context.Canceled) {
				return cli.ExitError(cli.ExitInterrupted)
			}
			return err
		},
	}
	c.Flags().DurationVar(&flood, "for", tour.DefaultFlood, "`TIME` for which the noisy neighbour floods")
	output.CompleteFlag(c, "for", "2s", "6s", "30s")
	return c
}
