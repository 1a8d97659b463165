package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/cmd/headgate/internal/doctor"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/internal/terminal"
)

func (p *program) doctorCommand() *cobra.Command {
	var (
		out     output.Format
		timeout time.Duration
	)
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether a node with this configuration can run here",
		Long: `Check whether a node with this configuration can run here, and say what to do where it cannot.

It takes the flags, environment variables and configuration file of "headgate serve", and checks the configuration,
files with secrets, listen addresses, listeners open to other hosts, file descriptors, certificates and when they
expire, the clock, Redis (version, settings, latency, clock skew, cluster), the rules file, the rules service or the
database, and the upstreams. It changes nothing, and can run while a node runs.

The exit code is 1 if there are problems, and 0 otherwise, even with warnings. After Ctrl-C it prints the results
so far.`,
		Example: `  # before the first start, or in a deployment pipeline
  headgate doctor --config headgate.yaml

  # with the settings of the environment, for a script
  HEADGATE_STORE=redis://cache:6379 headgate doctor --output json

  # the problems only
  headgate doctor --output json | jq '.checks[] | select(.status == "problem")'`,
		Args: cobra.NoArgs,
	}
	changedFlags := cli.AddSettingFlags(c.Flags(), nil) // nil: all settings
	c.Flags().DurationVar(&timeout, "timeout", doctor.DefaultTimeout,
		"maximum `DURATION` of each check that calls another server")
	output.AddFlag(c, &out)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if timeout <= 0 {
			return fmt.Errorf("--timeout %s: must be above 0, such as 5s", timeout)
		}
		return p.doctor(c.Context(), changedFlags(), timeout, out)
	}
	return c
}

func (p *program) doctor(ctx context.Context, flags map[string]string, timeout time.Duration, out output.Format) error {
	ctx, stop := cli.UntilInterrupted(ctx)
	defer stop()
	o := doctor.Options{Version: currentBuild().Version, Timeout: timeout}
	if out == output.Table {
		clearLine := func() {}
		if terminal.IsCharDevice(p.Stderr) {
			clearLine = func() { _, _ = fmt.Fprint(p.Stderr, "\r\x1b[K") }
			o.OnStart = func(check string) { _, _ = fmt.Fprintf(p.Stderr, "checking %s …", check) }
		}
		o.OnResult = func(r doctor.Result) {
			clearLine()
			p.printResult(r)
		}
		defer clearLine()
	}
	report := doctor.Run(ctx, config.Inputs{Flags: flags, Environ: p.Environ}, o)
	if out == output.Table {
		p.Printf("\n%s, %s\n", output.Plural(report.Problems, "problem"), output.Plural(report.Warnings, "warning"))
	} else if err := p.Show(out, report, nil, nil); err != nil {
		return err
	}
	if report.Problems > 0 {
		return cli.ExitError(cli.ExitFailure)
	}
	return nil
}

// printResult prints a result on one line, and its fix on the next.
func (p *program) printResult(r doctor.Result) {
	p.Printf("%-8s %s: %s\n", r.Status, output.Sanitize(r.Check), output.Sanitize(r.Detail))
	if r.Fix != "" {
		p.Printf("%-8s fix: %s\n", "", output.Sanitize(r.Fix))
	}
}
