package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/sim"
	"github.com/headgate/headgate/server/sim/report"
	"github.com/headgate/headgate/server/sim/scenario"
)

func (p *program) simulateCommand() *cobra.Command {
	o := simulateOptions{seed: -1, figure: string(report.Admitted)}
	c := &cobra.Command{
		Use:   "simulate SCENARIO",
		Short: "Simulate limits on many nodes, with traffic and faults",
		Long: `Simulate limits on many nodes, with traffic and faults, in virtual time. A scenario file describes them:

  duration: 30s
  nodes: 3
  limits: [10/s]
  modes: [exact, lease, async]
  traffic: [{ rate: 300, clients: 5 }]
  faults: [{ kind: crash, at: 10s, for: 5s, nodes: [0] }]

Nodes run the same code as "headgate serve"; clocks, the network and Redis are simulated. An oracle that sees all nodes
at once judges every decision. The same file and seed always give the same results. docs/simulator.md explains the
fields and the results, and examples/scenarios has files to start from.

The exit code is 0, 1 on an error, and 130 after Ctrl-C, with the results until then, which are marked as partial.`,
		Example: `  headgate simulate examples/scenarios/three-nodes.yaml
  headgate simulate --html report.html scenario.yaml
  headgate simulate -o json --seed 7 scenario.yaml > results.json`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(c *cobra.Command, args []string) error {
			s, err := scenario.Load(args[0])
			if err != nil {
				return err
			}
			if c.Flags().Changed("seed") {
				if o.seed < 0 {
					return fmt.Errorf("--seed %d: want 0 or more", o.seed)
				}
				s.Seed = o.seed
			}
			if err := o.choose(s); err != nil {
				return err
			}
			if o.parallel < 0 {
				return fmt.Errorf("--parallel %d: want 1 or more, or 0 for one per processor", o.parallel)
			}
			if !slices.Contains(figureNames(), o.figure) {
				return fmt.Errorf("--figure %q: want one of %s", o.figure, strings.Join(figureNames(), ", "))
			}
			if c.Flags().Changed("figure") && o.svg == "" {
				return errors.New("--figure is the figure in the chart of --svg: want --svg too")
			}
			if err := checkWritable(o.html, o.svg); err != nil {
				return err
			}
			return p.simulate(c.Context(), s, o)
		},
	}
	output.AddFlag(c, &o.out)
	c.Flags().IntVar(&o.seed, "seed", o.seed, "seed instead of that of the scenario")
	c.Flags().StringVar(&o.algorithm, "algorithm", "", "`NAME` of the one algorithm of the scenario to simulate")
	c.Flags().StringVar(&o.mode, "mode", "", "`NAME` of the one mode of the scenario to simulate")
	c.Flags().StringVar(&o.html, "html", "", "also write a report with charts to this `FILE`")
	c.Flags().IntVar(&o.parallel, "parallel", 0,
		"how many modes and algorithms to simulate at the same time; each needs its own memory (default one per processor)")
	c.Flags().StringVar(&o.svg, "svg", "", "also write a chart of a figure over time to this `FILE`")
	c.Flags().StringVar(&o.figure, "figure", o.figure, "figure in the chart of --svg: "+strings.Join(figureNames(), ", "))
	_ = c.RegisterFlagCompletionFunc("figure", cobra.FixedCompletions(figureNames(), cobra.ShellCompDirectiveNoFileComp))
	for _, name := range []string{"seed", "parallel", "algorithm", "mode"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions) // the flag exists
	}
	return c
}

// simulateOptions are the flags of headgate simulate.
type simulateOptions struct {
	out       output.Format
	seed      int
	algorithm string // the only algorithm to simulate, "" for all of the scenario
	mode      string // the only mode to simulate, "" for all of the scenario
	html      string // file of the report, "" for none
	svg       string // file of a chart, "" for none
	figure    string // the figure in the chart
	parallel  int
}

// choose removes all algorithms and modes from a scenario except those that the flags select.
func (o *simulateOptions) choose(s *scenario.Scenario) error {
	var err error
	if o.algorithm != "" {
		if s.Algorithms, err = only("algorithm", o.algorithm, s.Algorithms); err != nil {
			return err
		}
	}
	if o.mode != "" {
		s.Modes, err = only("mode", o.mode, s.Modes)
	}
	return err
}

// only returns a list with the item that has the given name. It returns an error with the name of the flag if there is
// no such item.
func only[T fmt.Stringer](flag, name string, list []T) ([]T, error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("--%s %q: the scenario compares no %ss: want a list in its field %ss", flag, name, flag, flag)
	}
	i := slices.IndexFunc(list, func(item T) bool { return item.String() == name })
	if i < 0 {
		return nil, fmt.Errorf("--%s %q: want one of the %ss of the scenario: %v", flag, name, flag, list)
	}
	return list[i : i+1], nil
}

// writeCharts writes the report and the chart that the flags request.
func (o *simulateOptions) writeCharts(results *sim.Results) error {
	var errs []error
	if o.html != "" {
		var page bytes.Buffer
		if err := report.Write(&page, results); err != nil {
			errs = append(errs, fmt.Errorf("write the report: %w", err))
		} else {
			errs = append(errs, os.WriteFile(o.html, page.Bytes(), 0o644))
		}
	}
	if o.svg != "" {
		errs = append(errs, os.WriteFile(o.svg, []byte(report.Picture(results, report.Figure(o.figure))), 0o644))
	}
	return errors.Join(errs...)
}

// checkWritable returns an error if one of the files cannot be written. It is called before a measurement, so that
// results are not lost because of a wrong path. Empty names are ignored.
func checkWritable(files ...string) error {
	for _, name := range files {
		if name == "" {
			continue
		}
		_, err := os.Stat(name)
		isNew := errors.Is(err, os.ErrNotExist)
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			err = f.Close()
		}
		if err == nil && isNew {
			err = os.Remove(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// figureNames returns the values of --figure.
func figureNames() []string {
	var names []string
	for _, f := range report.Figures {
		names = append(names, string(f))
	}
	return names
}

// simulationGCPercent is the GOGC of simulations, unless the environment sets GOGC. Simulations use little memory but
// produce much garbage, so a higher value saves many garbage collections.
const simulationGCPercent = 300

// simulationMemory is the memory limit of simulations, above which garbage is collected more often, unless the
// environment sets GOMEMLIMIT.
const simulationMemory = 8 << 30

// simulate runs a scenario and prints its results.
func (p *program) simulate(ctx context.Context, s *scenario.Scenario, o simulateOptions) error {
	ctx, stop := cli.UntilInterrupted(ctx)
	defer stop()
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(simulationGCPercent))
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(simulationMemory))
	}
	began := time.Now()
	progress := cli.NewProgressLine(p.Stderr)
	showProgress := func(s sim.Progress) {
		progress.Printf("%.0f%%, %d of %d runs, %d requests", 100*s.Fraction, s.Ended, s.Runs, s.Requests)
	}
	results, err := sim.Run(ctx, s, sim.Options{Parallel: o.parallel, Progress: showProgress})
	progress.Clear()
	interrupted := errors.Is(err, context.Canceled)
	if err != nil && !interrupted {
		return err
	}
	err = p.Show(o.out, results, simulationHeader, simulationRows(results))
	if err == nil && o.out == output.Table {
		p.printSimulationNotes(results, time.Since(began))
	}
	if err := errors.Join(err, o.writeCharts(results)); err != nil {
		return err
	}
	if interrupted {
		fmt.Fprintln(p.Stderr, "headgate: interrupted; the results are partial")
		return cli.ExitError(cli.ExitInterrupted)
	}
	return nil
}

var simulationHeader = []string{
	"ALGORITHM", "MODE", "REQUESTS", "ADMITTED", "DENIED", "WRONGLY ADMITTED", "WRONGLY DENIED", "MAX EXCESS",
	"BURSTINESS", "P50", "P99", "REDIS CALLS/S", "REDIS LOAD", "BYTES/S",
}

func simulationRows(results *sim.Results) [][]string {
	var rows [][]string
	for _, r := range results.Results {
		rate := func(n int64) string {
			if r.Simulated == 0 {
				return "0"
			}
			return strconv.FormatInt(int64(float64(n)/r.Simulated), 10)
		}
		mode := r.Mode
		switch {
		case r.Partial && r.Simulated == 0:
			mode += " (not simulated)"
		case r.Partial:
			mode += " (partial)"
		}
		rows = append(rows, []string{
			r.Algorithm, mode, strconv.FormatInt(r.Requests, 10), strconv.FormatInt(r.Admitted, 10),
			strconv.FormatInt(r.Denied, 10), withPercent(r.WronglyAdmitted, r.Requests),
			withPercent(r.WronglyDenied, r.Requests), strconv.FormatInt(r.MaxExcess, 10),
			strconv.FormatFloat(r.Burstiness, 'f', 2, 64), microseconds(r.Latency.P50), microseconds(r.Latency.P99),
			rate(r.RedisCalls), strconv.FormatFloat(100*r.RedisLoad, 'f', 1, 64) + "%", rate(r.BytesSent),
		})
	}
	return rows
}

func withPercent(n, of int64) string {
	if n == 0 || of == 0 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%d (%.2g%%)", n, 100*float64(n)/float64(of))
}

func microseconds(us float64) string {
	return time.Duration(us * float64(time.Microsecond)).Round(time.Microsecond).String()
}

// printSimulationNotes prints results that are not in the table.
func (p *program) printSimulationNotes(results *sim.Results, took time.Duration) {
	simulated := 0.0
	for _, r := range results.Results {
		simulated += r.Simulated
		if r.Degraded > 0 || r.Unserved > 0 {
			p.Printf("%s %s: %d decisions by policy, %d requests without a node\n", r.Algorithm, r.Mode, r.Degraded, r.Unserved)
		}
		if r.BytesBetweenRegions > 0 && r.Simulated > 0 {
			p.Printf("%s %s: %.0f bytes/s between regions\n", r.Algorithm, r.Mode, float64(r.BytesBetweenRegions)/r.Simulated)
		}
		switch {
		case r.Partial && r.Simulated == 0:
			p.Printf("%s %s: not simulated, because the run was interrupted\n", r.Algorithm, r.Mode)
		case r.Partial:
			p.Printf("%s %s: partial, the first %.1fs of %.0fs\n", r.Algorithm, r.Mode, r.Simulated, results.Duration)
		}
	}
	for _, l := range results.Logs {
		p.Printf("%s: %d requests read, %d lines could not be used\n", l.File, l.Requests, l.Skipped)
		if l.Incomplete != "" {
			p.Printf("%s: the rest could not be read: %s\n", l.File, output.Sanitize(l.Incomplete))
		}
		for _, e := range l.Examples {
			p.Printf("  line %d: %s: %s\n", e.Line, output.Sanitize(e.Reason), output.Sanitize(e.Text))
		}
	}
	if results.SampleOneIn > 1 {
		p.Printf("a sample of 1 in %d clients was simulated\n", results.SampleOneIn)
	}
	p.Printf("simulated %.1fs in %.1fs, seed %d\n", simulated, took.Seconds(), results.Seed)
}
