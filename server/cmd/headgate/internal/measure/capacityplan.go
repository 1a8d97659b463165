package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/plan"
	"github.com/headgate/headgate/server/sim/chart"
)

// planFlags are the flags of plan.
type planFlags struct {
	clients, average, peak, shardMemory string
	limit, mode                         string
	input                               plan.Input
	calibrate                           bool
	redis                               string
	duration                            time.Duration
	svg                                 string // file of a chart, "" for none
	out                                 output.Format
}

func (p *program) planCommand() *cobra.Command {
	f := &planFlags{}
	c := &cobra.Command{
		Use:   "plan",
		Short: "Calculate the nodes, Redis shards, memory and bandwidth that a load needs",
		Long: `Calculate the nodes, Redis shards, memory, bandwidth, over-admission and added latency of a load, and show the
arithmetic line by line, with the source of each constant.

With --calibrate, the command measures the decisions per second of a node and the memory of a counter on this machine.
It starts a node, and sends requests to it over gRPC as "bench load --rate max" does. With --redis as well, it measures
the calls per second of that Redis server, and the decisions per second of a node that counts there. The keys that it
writes begin with headgate- and expire. The load generator runs on the same machine, so real nodes are faster.

The exit code is 0, 1 on an error, and 130 after Ctrl-C, with a plan from the constants that were measured until then.`,
		Example: `  headgate plan --dau 100M --rps 1M --peak 3M --limits 2 --mode exact --regions 3
  headgate plan --dau 1M --rps 2k --peak 10k --limit 100/s --mode async -o json
  headgate plan --dau 100M --rps 1M --peak 3M --calibrate --redis redis://127.0.0.1:6379`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("calibrate-time") && !f.calibrate {
				return errors.New("--calibrate-time is the time of measurements: want --calibrate too")
			}
			return p.plan(c.Context(), f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.clients, "dau", "1M", "`N` clients that are active in a day, such as 100M")
	flags.StringVar(&f.average, "rps", "10k", "`N` requests per second on average")
	flags.StringVar(&f.peak, "peak", "", "`N` requests per second at peak (default three times the average)")
	flags.IntVar(&f.input.Limits, "limits", 1, "each request has `N` limits")
	flags.StringVar(&f.limit, "limit", "100/s", "`LIMIT` of one client, for over-admission and leases")
	flags.StringVar(&f.mode, "mode", string(plan.Exact), "`MODE` of consistency: exact, lease or async")
	flags.IntVar(&f.input.Regions, "regions", 1, "`N` regions")
	flags.DurationVar(&f.input.RegionDelay, "region-delay", 40*time.Millisecond,
		"`TIME` that a message takes between regions")
	flags.Float64Var(&f.input.Utilization, "utilization", 0.6, "`SHARE` of a machine's capacity that is used at peak")
	flags.Float64Var(&f.input.Hot, "hot", 0.5, "`SHARE` of requests on keys that are hot enough for leases")
	flags.IntVar(&f.input.Nodes, "nodes", 0, "`N` nodes in all regions together (default as many as the peak needs)")
	flags.Float64Var(&f.input.Offered, "offered", 2, "a client sends at most `N` times the rate of its limit")
	flags.StringVar(&f.shardMemory, "shard-memory", "16G", "a Redis shard has `BYTES` for counters")
	flags.BoolVar(&f.calibrate, "calibrate", false, "measure constants on this machine")
	flags.StringVar(&f.redis, "redis", "", "with --calibrate, measure the Redis server at this `URL`")
	flags.DurationVar(&f.duration, "calibrate-time", 3*time.Second, "with --calibrate, `TIME` of each measurement")
	flags.StringVar(&f.svg, "svg", "", "also write a chart of the machines that each mode needs to this `FILE`")
	output.AddFlag(c, &f.out)
	output.CompleteFlag(c, "mode", "exact", "lease", "async")
	return c
}

// read returns the input that the flags describe.
func (f *planFlags) read() (plan.Input, error) {
	in := f.input
	in.Mode = plan.Mode(f.mode)
	for _, n := range []struct {
		flag, text string
		value      *float64
	}{{"dau", f.clients, &in.Clients}, {"rps", f.average, &in.Average}, {"shard-memory", f.shardMemory, &in.ShardMemory}} {
		var err error
		if *n.value, err = plan.ParseNumber(n.text); err != nil {
			return in, fmt.Errorf("--%s %w", n.flag, err)
		}
	}
	in.Peak = 3 * in.Average
	if f.peak != "" {
		var err error
		if in.Peak, err = plan.ParseNumber(f.peak); err != nil {
			return in, fmt.Errorf("--peak %w", err)
		}
	}
	var err error
	if in.Limit, err = headgate.ParseLimit(f.limit); err != nil {
		return in, err
	}
	return in, in.Validate()
}

func (p *program) plan(ctx context.Context, f *planFlags) error {
	in, err := f.read()
	if err != nil {
		return err
	}
	if f.redis != "" && !f.calibrate {
		return errors.New("--redis is measured with --calibrate only")
	}
	if f.redis != "" && !strings.HasPrefix(f.redis, redisScheme) {
		return fmt.Errorf("--redis %s: want redis://host:port", f.redis)
	}
	if err := checkWritable(f.svg); err != nil {
		return err
	}
	constants, interrupted := plan.Defaults(in.NodeCounters()), false
	if f.calibrate {
		ctx, stop := cli.UntilInterrupted(ctx)
		defer stop()
		err := p.calibrate(ctx, f, &in, &constants)
		if interrupted = ctx.Err() != nil; err != nil && !interrupted {
			return err
		}
	}
	result, err := plan.New(in, constants)
	if err != nil {
		return err
	}
	result.Interrupted = interrupted
	err = p.showMeasured(f.out, result, interrupted, false, func() error { return p.printPlan(result, f.calibrate) })
	if f.svg != "" {
		picture, err := planChart(in, constants)
		if err == nil {
			err = os.WriteFile(f.svg, []byte(picture.SVG(true)), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// planChart returns a chart of the machines that the load needs in each mode.
func planChart(in plan.Input, constants plan.Constants) (*chart.BarChart, error) {
	c := &chart.BarChart{
		Title: fmt.Sprintf("Machines for %s requests per second of %s clients, and units of a client above a limit",
			plan.Number(in.Peak), plan.Number(in.Clients)),
		Parts: []string{"nodes", "Redis shards", "shards of the global store"},
	}
	for _, mode := range plan.Modes {
		in.Mode = mode
		p, err := plan.New(in, constants)
		if err != nil {
			return nil, err
		}
		c.Bars = append(c.Bars, chart.Bar{
			Name: string(mode), Parts: []float64{p.Nodes, p.Shards, p.GlobalShards},
			Text: fmt.Sprintf("%s + %s + %s; %s units", plan.Number(p.Nodes), plan.Number(p.Shards), plan.Number(p.GlobalShards),
				plan.Number(p.OverAdmission)),
		})
	}
	return c, nil
}

func (p *program) printPlan(result *plan.Plan, calibrated bool) error {
	var rows [][]string
	section := ""
	for _, l := range result.Lines {
		name := l.Section
		if name == section {
			name = ""
		}
		section = l.Section
		value := plan.Number(l.Value) + " " + l.Unit
		switch l.Unit {
		case "bytes":
			value = plan.Bytes(l.Value)
		case "bytes/s":
			value = plan.Bytes(l.Value) + "/s"
		case "/s":
			value = plan.Number(l.Value) + "/s"
		case "µs":
			value = latencyText(time.Duration(l.Value * float64(time.Microsecond)))
		}
		rows = append(rows, []string{name, l.Name, value, "= " + l.How})
	}
	if err := p.Show(output.Table, nil, []string{"", "FIGURE", "VALUE", "ARITHMETIC"}, rows); err != nil {
		return err
	}
	p.Printf("\n")
	rows = nil
	for _, c := range result.Constants {
		rows = append(rows, []string{c.Name, plan.Number(c.Value) + " " + c.Unit, c.Source})
	}
	if err := p.Show(output.Table, nil, []string{"CONSTANT", "VALUE", "SOURCE"}, rows); err != nil {
		return err
	}
	if result.Nodes < result.NeededNodes {
		p.Printf("\nTOO FEW NODES: got --nodes %s, but the peak of %s/s needs %s, without spare ones.\n",
			plan.Number(result.Nodes), plan.Number(result.Input.Peak), plan.Number(result.NeededNodes))
	}
	switch {
	case result.Interrupted:
		p.Printf("\nInterrupted: constants that were not measured on this machine are from %s.\n", plan.DefaultMachine)
	case !calibrated:
		p.Printf("\nThe constants are from %s, which also ran the load and Redis; --calibrate measures this machine.\n",
			plan.DefaultMachine)
	}
	return nil
}
