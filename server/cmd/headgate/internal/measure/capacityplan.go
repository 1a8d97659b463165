package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/loadgen/target"
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
	svg                                 string // file of a picture, "" for none
	out                                 output.Format
}

func (p *program) planCommand() *cobra.Command {
	f := &planFlags{}
	c := &cobra.Command{
		Use:   "plan",
		Short: "Calculate the nodes, Redis shards, memory and bandwidth that a load needs",
		Long: `Calculate the nodes, Redis shards, memory, bandwidth, over-admission and added latency of a load, and show the
arithmetic line by line, with the source of each constant.

With --calibrate, the decisions per second of a node and the memory of a counter are measured on this machine: the
command starts a node of its own and loads it as "bench load --rate max" does, over gRPC. With --redis too, the calls per
second of that Redis server are measured; it gets keys that begin with headgate- and expire. The load shares the
machine with what it measures, so real nodes are faster.

The exit code is 0, 1 on an error, and 130 after Ctrl-C, with a plan of what was measured until then.`,
		Example: `  headgate plan --dau 100M --rps 1M --peak 3M --limits 2 --mode exact --regions 3
  headgate plan --dau 1M --rps 2k --peak 10k --limit 100/s --mode async -o json
  headgate plan --dau 100M --rps 1M --peak 3M --calibrate --redis redis://127.0.0.1:6379`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.plan(c.Context(), f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.clients, "dau", "1M", "clients that are active in a day: `N`, such as 100M")
	flags.StringVar(&f.average, "rps", "10k", "requests per second on average: `N`")
	flags.StringVar(&f.peak, "peak", "", "requests per second at peak: `N`; default three times the average")
	flags.IntVar(&f.input.Limits, "limits", 1, "limits of each request: `N`")
	flags.StringVar(&f.limit, "limit", "100/s", "`LIMIT` of one client, for over-admission and leases")
	flags.StringVar(&f.mode, "mode", string(plan.Exact), "`MODE` of consistency: exact, lease or async")
	flags.IntVar(&f.input.Regions, "regions", 1, "regions: `N`")
	flags.DurationVar(&f.input.RegionDelay, "region-delay", 40*time.Millisecond, "`TIME` of a message between regions")
	flags.Float64Var(&f.input.Utilization, "utilization", 0.6, "`SHARE` of a machine's capacity that is used at peak")
	flags.Float64Var(&f.input.Hot, "hot", 0.5, "`SHARE` of requests on keys that are hot enough for leases")
	flags.IntVar(&f.input.Nodes, "nodes", 0, "nodes of all regions: `N`; default as many as the peak needs")
	flags.Float64Var(&f.input.Offered, "offered", 2, "how many times its limit a client offers at most: `N`")
	flags.StringVar(&f.shardMemory, "shard-memory", "16G", "`BYTES` of a Redis shard for counters")
	flags.BoolVar(&f.calibrate, "calibrate", false, "measure constants on this machine")
	flags.StringVar(&f.redis, "redis", "", "with --calibrate, measure the Redis server at this `URL`")
	flags.DurationVar(&f.duration, "calibrate-time", 3*time.Second, "with --calibrate, `TIME` of each measurement")
	flags.StringVar(&f.svg, "svg", "", "also write a picture of the machines that each mode needs to this file")
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
		Title: fmt.Sprintf("Machines for %s requests per second of %s clients", plan.Number(in.Peak), plan.Number(in.Clients)),
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
			Text: fmt.Sprintf("%s + %s + %s; %s units above a limit", plan.Number(p.Nodes), plan.Number(p.Shards),
				plan.Number(p.GlobalShards), plan.Number(p.OverAdmission)),
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
	switch {
	case result.Interrupted:
		p.Printf("\nInterrupted: constants that are not measured on this machine are of %s.\n", plan.DefaultMachine)
	case !calibrated:
		p.Printf("\nThese are of %s, which also made the load; --calibrate measures this machine.\n", plan.DefaultMachine)
	}
	return nil
}

// calibrateRules is a rules file for calibrations. Its limit is so high that all requests are admitted.
const calibrateRules = "rules:\n  - { id: calibrate, key: user, limits: 1000/s }\n"

// calibrate measures constants on this machine. It shows the current step on standard error.
func (p *program) calibrate(ctx context.Context, f *planFlags, in *plan.Input, c *plan.Constants) error {
	if f.duration <= 0 || f.duration > 10*time.Minute {
		return fmt.Errorf("--calibrate-time %v: want a time up to 10m", f.duration)
	}
	fmt.Fprintln(p.Stderr, "headgate: measuring the memory of counters")
	if err := plan.MeasureCounters(ctx, c, in.NodeCounters()); err != nil {
		return err
	}
	fmt.Fprintf(p.Stderr, "headgate: measuring a node for %v\n", f.duration)
	if err := p.calibrateNode(ctx, c, f.duration); err != nil {
		return err
	}
	if f.redis == "" {
		return nil
	}
	fmt.Fprintf(p.Stderr, "headgate: measuring Redis for about %v\n", 3*f.duration+f.duration/4)
	return calibrateShard(ctx, f, in.Limits, c)
}

// redisScheme is the beginning of valid values of --redis.
const redisScheme = "redis://"

// calibrateShard measures the Redis server of --redis.
func calibrateShard(ctx context.Context, f *planFlags, limits int, c *plan.Constants) error {
	address := "redis-store://" + strings.TrimPrefix(f.redis, redisScheme)
	t, err := target.Open(ctx, target.Options{Address: address, Limit: headgate.PerSecond(1000)})
	if err != nil {
		return err
	}
	store, err := target.OpenRedis(ctx, f.redis, "headgate-plan")
	if err != nil {
		return errors.Join(err, t.Close())
	}
	return errors.Join(plan.MeasureShard(ctx, c, t, store, limits, f.duration), store.Close(), t.Close())
}

// nodeStartTime is the timeout for the start of the node of a calibration.
const nodeStartTime = 30 * time.Second

// calibrateNode starts a node of this program on a free port and measures it over gRPC.
func (p *program) calibrateNode(ctx context.Context, c *plan.Constants, duration time.Duration) (err error) {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "headgate-plan-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	rules := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte(calibrateRules), 0o600); err != nil {
		return err
	}
	node := exec.Command(program, "serve", "--rules", rules, "--grpc-addr", "127.0.0.1:0", "--data-dir", dir,
		"--gateway-addr", "off", "--api-addr", "off", "--resp-addr", "off", "--admin-addr", "off")
	node.Env = slices.DeleteFunc(slices.Clone(p.Environ), func(s string) bool { return strings.HasPrefix(s, "HEADGATE_") })
	node.Env = append(node.Env, "XDG_STATE_HOME="+dir)
	log, err := node.StderrPipe()
	if err != nil {
		return err
	}
	if err := node.Start(); err != nil {
		return fmt.Errorf("start a node: %w", err)
	}
	defer func() {
		_ = node.Process.Kill() // fails if the node has ended; it need not save anything
		_ = node.Wait()
	}()
	startCtx, cancel := context.WithTimeout(ctx, nodeStartTime)
	defer cancel()
	stop := context.AfterFunc(startCtx, func() { _ = node.Process.Kill() }) // ends the wait for its log
	address, err := grpcAddress(json.NewDecoder(log))
	stop()
	if err != nil {
		return fmt.Errorf("start a node: %w", err)
	}
	t, err := target.Open(ctx, target.Options{Address: "grpc://" + address, Rule: "calibrate"})
	if err != nil {
		return err
	}
	return errors.Join(plan.MeasureNode(ctx, c, t, duration), t.Close())
}

// grpcAddress reads the log of a node until it finds the address of the gRPC listener.
func grpcAddress(log *json.Decoder) (string, error) {
	for {
		var line struct {
			Msg  string `json:"msg"`
			GRPC string `json:"grpc"`
		}
		if err := log.Decode(&line); err != nil {
			return "", fmt.Errorf("it did not listen: %w", err)
		}
		if line.Msg == "listening" && line.GRPC != "" {
			return line.GRPC, nil
		}
	}
}
