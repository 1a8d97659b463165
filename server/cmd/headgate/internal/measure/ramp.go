package measure

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/internal/terminal"
	"github.com/headgate/headgate/server/ladder"
	"github.com/headgate/headgate/server/loadgen/target"
	"github.com/headgate/headgate/server/sim/chart"
)

// allAlgorithms is the value of --algorithm for all algorithms with a rate.
const allAlgorithms = "all"

// rampFlags are the flags of bench ramp.
type rampFlags struct {
	targetFlags
	address   string
	algorithm string
	limit     string
	steps     []string
	virtual   bool
	each      bool
	svg       string // file of a chart, "" for none
	out       output.Format
}

// A rampReport is the result of bench ramp.
type rampReport struct {
	Target      string          `json:"target"`
	Limit       string          `json:"limit"`
	Virtual     bool            `json:"virtual"`
	Interrupted bool            `json:"interrupted,omitempty"`
	Steps       []ladder.Result `json:"steps"`
}

func (p *program) rampCommand() *cobra.Command {
	f := &rampFlags{}
	c := &cobra.Command{
		Use:   "ramp",
		Short: "Climb a ladder of rates against a limit, and compare with the time that the limit implies",
		Long: `Climb a ladder of rates against a limit: 10 requests at 1 per second, 20 at 2, and so on to 1000 at 100, against a
limit of 20/s. Each request is retried until it is admitted. For each step, the command prints how long it took, the
achieved rate, and the time that an oracle expects, which knows only the limit: until the last request was sent, or
until the limit had units for all requests if that is later.

With --virtual, the real algorithms run in virtual time, and the results are there at once. Otherwise the ladder takes
about two minutes for each algorithm.

Requests wait in a queue, and only the first one is retried: at the time that the target returns, or after period/count
if the target returns only whole seconds. At a gateway, the first eight are retried, because the service behind it may
respond late. The other requests would be denied too, so the queue saves these attempts. With --each there is no queue:
each request is sent when it is due, and retried separately.` + targetsHelp + `

The target applies its own rule; --limit must be the limit of that rule. The exit code is 0 if each step ended within
one period of the oracle's time, 2 if one did not, 1 on an error, and 130 after Ctrl-C, with the results until then.`,
		Example: `  # every algorithm, at once
  headgate bench ramp --virtual --algorithm all

  # in real time, in this process
  headgate bench ramp --step 40@40 --step 60@60

  # a node in real time, over RESP, by a limit of CL.THROTTLE
  headgate bench ramp --target redis://127.0.0.1:8083

  # a node in real time, over HTTP, by a rule with a limit of 20/s
  headgate bench ramp --target http://127.0.0.1:8081/v1/ratelimit --rule per-key --limit 20/s -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.ramp(c.Context(), f) },
	}
	f.add(c)
	flags := c.Flags()
	flags.StringVar(&f.address, "target", target.Memory, "`TARGET` to send to")
	flags.StringVar(&f.algorithm, "algorithm", "", "`NAME` of an algorithm, or all (default that of --limit)")
	flags.StringVar(&f.limit, "limit", "20/s", "`LIMIT` that the target applies")
	flags.StringArrayVar(&f.steps, "step", nil, "`REQUESTS@RATE` of a step; can be repeated (default the whole ladder)")
	flags.BoolVar(&f.each, "each", false, "retry each request separately, instead of only the first in the queue")
	flags.BoolVar(&f.virtual, "virtual", false, "run in virtual time, in this process")
	flags.StringVar(&f.svg, "svg", "", "also write a chart of the durations to this `FILE`")
	output.AddFlag(c, &f.out)
	output.CompleteFlag(c, "target", target.Addresses...)
	names := []string{allAlgorithms}
	for _, a := range rateAlgorithms() {
		names = append(names, a.String())
	}
	output.CompleteFlag(c, "algorithm", names...)
	return c
}

// rateAlgorithms returns the algorithms that have a rate.
func rateAlgorithms() []headgate.Algorithm {
	return slices.DeleteFunc(headgate.Algorithms(), func(a headgate.Algorithm) bool { return a == headgate.Concurrency })
}

// limits returns the limits to measure, one for each algorithm.
func (f *rampFlags) limits() ([]headgate.Limit, error) {
	limit, err := headgate.ParseLimit(f.limit)
	if err != nil {
		return nil, err
	}
	if limit.Algorithm == headgate.Concurrency {
		return nil, errors.New("--limit: concurrency has no rate to climb against; want a limit such as 20/s")
	}
	if f.algorithm == "" {
		return []headgate.Limit{limit}, nil
	}
	if !target.HasLimit(f.address, f.rule) {
		return nil, errors.New("--algorithm: the target applies its own rule; want the limit of that rule in --limit")
	}
	var limits []headgate.Limit
	for _, a := range rateAlgorithms() {
		if f.algorithm == allAlgorithms || f.algorithm == a.String() {
			limit.Algorithm = a
			if err := limit.Validate(); err != nil {
				return nil, err
			}
			limits = append(limits, limit)
		}
	}
	if limits == nil {
		return nil, fmt.Errorf("--algorithm %s: want all or one of %v", f.algorithm, rateAlgorithms())
	}
	return limits, nil
}

func (f *rampFlags) ladder() ([]ladder.Step, error) {
	if len(f.steps) == 0 {
		return ladder.DefaultSteps, nil
	}
	var steps []ladder.Step
	for _, text := range f.steps {
		step, err := ladder.ParseStep(text)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	return steps, nil
}

func (p *program) ramp(ctx context.Context, f *rampFlags) error {
	limits, err := f.limits()
	if err != nil {
		return err
	}
	steps, err := f.ladder()
	if err != nil {
		return err
	}
	if f.virtual && f.address != target.Memory {
		return errors.New("--virtual runs in this process; want no --target")
	}
	if err := checkWritable(f.svg); err != nil {
		return err
	}
	ctx, stop := cli.UntilInterrupted(ctx)
	defer stop()
	report := rampReport{Target: f.address, Limit: f.limit, Virtual: f.virtual}
	screen := &terminal.Screen{W: p.Stderr, Live: terminal.CanRedraw(p.Stderr, p.Environ)}
	for _, limit := range limits {
		results, err := f.climb(ctx, limit, steps, rampProgress(screen, f.virtual))
		report.Steps = append(report.Steps, results...)
		if ctx.Err() != nil {
			report.Interrupted = true
			break
		}
		if err != nil {
			return err
		}
	}
	if screen.Live && !f.virtual {
		screen.Draw(nil)
	}
	return p.showRamp(f, &report)
}

// climb runs the ladder against one limit.
func (f *rampFlags) climb(
	ctx context.Context, limit headgate.Limit, steps []ladder.Step, progress func(ladder.Result),
) ([]ladder.Result, error) {
	o := ladder.Options{
		Algorithm: limit.Algorithm.String(), Limit: limit, Steps: steps, Clock: ladder.SystemClock{},
		Client: "ramp-" + rand.Text(), Progress: progress, Each: f.each,
	}
	t, err := f.targetOptions(f.address)
	if err != nil {
		return nil, err
	}
	t.Limit = limit
	if f.virtual {
		clock := ladder.NewVirtualClock(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))
		o.Clock, t.Now = clock, clock.Now
	}
	if target.IsGateway(f.address) {
		o.InFlight, t.Connections = gatewayRequests, gatewayRequests
	}
	if o.Target, err = target.Open(ctx, t); err != nil {
		return nil, err
	}
	results, err := ladder.Run(ctx, o)
	return results, errors.Join(err, o.Target.Close())
}

// gatewayRequests is the number of concurrent requests to a gateway. They may wait for the service behind it.
const gatewayRequests = 8

// rampProgress returns a function that draws the progress of a step at most ten times per second, or nil without a
// terminal.
func rampProgress(screen *terminal.Screen, virtual bool) func(ladder.Result) {
	if !screen.Live || virtual {
		return nil
	}
	var drawn time.Time
	return func(r ladder.Result) {
		if time.Since(drawn) < 100*time.Millisecond && r.Admitted < r.Requests {
			return
		}
		drawn = time.Now()
		screen.Draw([]string{fmt.Sprintf("  %-15s %-8s %s %d of %d in %.1f s, %.1f/s", r.Algorithm, r.Step,
			terminal.Bar(float64(r.Admitted)/float64(r.Requests), 20), r.Admitted, r.Requests, r.Seconds, r.Achieved)})
	}
}

// showRamp prints the report. It returns an ExitError if a step was not within one period of the oracle's time.
func (p *program) showRamp(f *rampFlags, report *rampReport) error {
	outside := slices.ContainsFunc(report.Steps, func(r ladder.Result) bool { return !r.WithinOnePeriod })
	err := p.showMeasured(f.out, report, report.Interrupted, outside, func() error { return p.printRamp(report) })
	if f.svg != "" {
		if err := os.WriteFile(f.svg, []byte(rampChart(report).SVG(true)), 0o644); err != nil {
			return err
		}
	}
	return err
}

// rampChart returns a chart of the durations of the steps, compared with the times that the oracle expects.
func rampChart(report *rampReport) *chart.BarChart {
	c := &chart.BarChart{
		Title: "How long a step takes with a limit of " + report.Limit, Parts: []string{"the oracle's time", "more than that"},
	}
	for _, r := range report.Steps {
		text := fmt.Sprintf("%.2f s, %+.2f s; %.1f/s", r.Seconds, r.Seconds-r.Oracle, r.Achieved)
		if r.Admitted < r.Requests {
			text += ", interrupted"
		}
		c.Bars = append(c.Bars, chart.Bar{
			Name: r.Algorithm + " " + r.Step, Parts: []float64{min(r.Seconds, r.Oracle), max(0, r.Seconds-r.Oracle)}, Text: text,
		})
	}
	return c
}

func (p *program) printRamp(report *rampReport) error {
	highest, longest := 0.0, 0.0
	for _, r := range report.Steps {
		highest, longest = max(highest, r.Achieved), max(longest, r.Seconds)
	}
	var rows [][]string
	for _, r := range report.Steps {
		verdict := "yes"
		switch {
		case report.Interrupted && r.Admitted < r.Requests:
			verdict = "interrupted"
		case !r.WithinOnePeriod:
			verdict = "NO"
		}
		rows = append(rows, []string{
			r.Algorithm, r.Step, fmt.Sprint(r.Admitted), fmt.Sprintf("%.2f s", r.Seconds), fmt.Sprintf("%.1f/s", r.Achieved),
			strings.TrimRight(terminal.Bar(r.Achieved/highest, 20), " "), fmt.Sprintf("%.2f s", r.Oracle), verdict,
		})
	}
	if err := p.Show(output.Table, nil, []string{
		"ALGORITHM", "STEP", "ADMITTED", "DURATION", "ACHIEVED", "", "ORACLE", "WITHIN A PERIOD",
	}, rows); err != nil {
		return err
	}
	if len(report.Steps) > 0 {
		p.Printf("\nPassed in each second, of at most %.0f s:\n", longest)
	}
	for _, r := range report.Steps {
		p.Printf("  %-15s %-8s %s\n", r.Algorithm, r.Step, strings.TrimRight(rampPlot(r.Passed), " "))
	}
	if report.Interrupted {
		p.Printf("\nInterrupted: the last step is not complete.\n")
	}
	return nil
}

// plotColumns is the maximum number of columns of a plot of seconds.
const plotColumns = 60

// rampPlot draws the number of requests that passed in each second. If there are many seconds, a column has several.
func rampPlot(perSecond []int) string {
	secondsPerColumn := max(1, (len(perSecond)+plotColumns-1)/plotColumns)
	var values []float64
	for i, n := range perSecond {
		if i%secondsPerColumn == 0 {
			values = append(values, 0)
		}
		values[len(values)-1] += float64(n)
	}
	return terminal.Spark(values)
}
