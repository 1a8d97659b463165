// Package measure has the commands that measure, simulate or demonstrate limiters: bench, plan, simulate and demo.
package measure

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/secretfile"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/loadgen/target"
)

type program struct{ *cli.Program }

// Commands returns the commands of this package.
func Commands(base *cli.Program) []*cobra.Command {
	p := &program{base}
	return []*cobra.Command{p.benchCommand(), p.planCommand(), p.demoCommand(), p.simulateCommand()}
}

func (p *program) benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure a limiter",
		Long: `Measure a limiter: a store in this process, a store in Redis, or a node over HTTP, gRPC or RESP.

"ramp" checks that a limit admits the right number of requests, at rates below and above it.
"load" measures latency and throughput at a given rate of requests.`,
		Example: `  headgate bench ramp --virtual --algorithm all
  headgate bench load --rate 1000 --duration 1s`,
	}
	c.AddCommand(p.rampCommand(), p.loadCommand())
	return c
}

const targetsHelp = `

Targets:
  memory                               a store in this process
  http://127.0.0.1:8081/v1/ratelimit   the decision API of a node; needs --rule
  http://127.0.0.1:8080/               a gateway; the client is sent as X-API-Key, and a rule must count by it
  grpc://127.0.0.1:8082                a node over gRPC; with --rule, or --limit if the node lets callers choose limits
  redis://127.0.0.1:8083               a node over RESP; HG.TAKE with --rule, otherwise CL.THROTTLE with --limit
  redis-store://127.0.0.1:6379         counters in Redis, without a node

Clients have random names, so that each run starts with full limits. For a rule, they are both user and api_key.`

// targetFlags are flags about the requests to a target.
type targetFlags struct {
	rule, tokenFile string
}

func (f *targetFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.rule, "rule", "", "`ID` of the target's rule to apply")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "`FILE` with the token of the decision service")
}

// targetOptions returns the options for a target.
func (f *targetFlags) targetOptions(address string) (target.Options, error) {
	o := target.Options{Address: address, Rule: f.rule}
	if f.tokenFile == "" {
		return o, nil
	}
	if address == target.Memory {
		return o, errors.New("--token-file is for nodes, and the target is in this process")
	}
	token, err := secretfile.Read(f.tokenFile)
	o.Token = strings.TrimSpace(string(token))
	return o, err
}

// showMeasured prints a report. It calls printTable for the format Table. It returns an ExitError if the measurement
// was interrupted or its result is unwanted.
func (p *program) showMeasured(
	out output.Format, report any, interrupted, unwanted bool, printTable func() error,
) error {
	show := printTable
	if out != output.Table {
		show = func() error { return p.Show(out, report, nil, nil) }
	}
	switch err := show(); {
	case err != nil:
		return err
	case interrupted:
		return cli.ExitError(cli.ExitInterrupted)
	case unwanted:
		return cli.ExitError(cli.ExitDiffers)
	}
	return nil
}
