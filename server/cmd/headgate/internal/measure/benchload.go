package measure

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/internal/terminal"
	"github.com/headgate/headgate/server/loadgen"
	"github.com/headgate/headgate/server/loadgen/target"
	"github.com/headgate/headgate/server/plan"
)

// maxRateName is the value of --rate for the highest possible rate.
const maxRateName = "max"

// maxTargets is the maximum number of targets of bench load.
const maxTargets = 2

// loadFlags are the flags of bench load.
type loadFlags struct {
	targetFlags
	addresses []string
	limit     string
	rate      string
	options   loadgen.Options
	svg       string // file of a chart, "" for none
	out       output.Format
}

// A loadReport is the result of bench load.
type loadReport struct {
	Limit       string           `json:"limit,omitempty"`
	Interrupted bool             `json:"interrupted,omitempty"`
	Targets     []loadgen.Report `json:"targets"`
}

func (p *program) loadCommand() *cobra.Command {
	f := &loadFlags{}
	c := &cobra.Command{
		Use:   "load",
		Short: "Send requests at a constant rate, and measure latency including the time that requests had to wait",
		Long: `Send requests at a constant rate, which does not depend on responses. LATENCY is the time from when a request was
due to its response. So if a target stalls for a second, the latency of all requests of that second includes the stall.
SERVICE is the time from when the request was sent, which is later if all connections were busy. Requests that were
never sent are counted with the time that they waited. The run ends when all requests have a response, at most 2 s after
--duration; requests without a response then count as errors. After Ctrl-C, requests in flight count as interrupted.

With --rate max, each connection sends its next request as soon as it has the response to the previous one. This
measures throughput; its latency is that of a saturated target.

With two targets, both receive the whole rate at the same time and are shown side by side. Live figures are drawn on
standard error if that is a terminal.` + targetsHelp + `

Denied requests are not errors. The exit code is 0 if all requests were sent and have a response, 2 if some failed or
could not be sent, 1 on an error, and 130 after Ctrl-C, with the figures until then.`,
		Example: `  # a store in this process
  headgate bench load --rate 10000 --duration 2s

  # a node over HTTP and over RESP, side by side
  headgate bench load --rate 2000 --rule per-key \
    --target http://127.0.0.1:8081/v1/ratelimit --target redis://127.0.0.1:8083

  # how many decisions a second a node makes
  headgate bench load --rate max --duration 10s --target redis://127.0.0.1:8083 -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.load(c.Context(), f) },
	}
	f.add(c)
	flags := c.Flags()
	flags.StringArrayVar(&f.addresses, "target", []string{target.Memory}, "`TARGET` to send to; can be given twice")
	flags.StringVar(&f.limit, "limit", "100/s", "`LIMIT` of each client, for targets that apply no rule of their own")
	flags.StringVar(&f.rate, "rate", "1000", "send `N` requests per second, such as 20k, or max")
	flags.DurationVar(&f.options.Duration, "duration", 10*time.Second, "send requests for this `TIME`")
	flags.IntVar(&f.options.Connections, "connections", loadgen.DefaultConnections, "keep at most `N` requests in flight")
	flags.IntVar(&f.options.Clients, "clients", loadgen.DefaultClients, "spread requests over `N` clients")
	flags.DurationVar(&f.options.Timeout, "timeout", loadgen.DefaultTimeout, "`TIME` after which a request has failed")
	flags.BoolVar(&f.options.Poisson, "poisson", false, "send at random times with that average rate")
	flags.StringVar(&f.svg, "svg", "", "also write a chart of the latencies to this `FILE`")
	output.AddFlag(c, &f.out)
	output.CompleteFlag(c, "target", target.Addresses...)
	output.CompleteFlag(c, "rate", "100", "1000", "10000", maxRateName)
	return c
}

// runs opens the targets and returns a run for each, and a function that closes the targets.
func (f *loadFlags) runs(ctx context.Context) (runs []*loadgen.Run, closeAll func() error, err error) {
	var targets []target.Target
	closeAll = func() error {
		var errs []error
		for _, t := range targets {
			errs = append(errs, t.Close())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	if len(f.addresses) > maxTargets {
		return nil, closeAll, fmt.Errorf("got %d targets, want one or two", len(f.addresses))
	}
	if f.options.Connections < 1 || f.options.Clients < 1 || f.options.Timeout <= 0 {
		return nil, closeAll, fmt.Errorf("--connections %d, --clients %d, --timeout %v: want more than 0",
			f.options.Connections, f.options.Clients, f.options.Timeout)
	}
	limit, err := headgate.ParseLimit(f.limit)
	if err != nil {
		return nil, closeAll, err
	}
	if limit.Algorithm == headgate.Concurrency {
		return nil, closeAll, fmt.Errorf("--limit %s: bench load cannot measure concurrency limits; want a limit such as 100/s", f.limit)
	}
	if f.rate != maxRateName {
		if f.options.Rate, err = plan.ParseNumber(f.rate); err != nil || f.options.Rate == 0 {
			return nil, closeAll, fmt.Errorf("--rate %s: want a number of requests per second such as 500 or 20k, or max", f.rate)
		}
	}
	for _, address := range f.addresses {
		o, err := f.targetOptions(address)
		if err != nil {
			return nil, closeAll, err
		}
		o.Limit, o.Connections = limit, f.options.Connections
		t, err := target.Open(ctx, o)
		if err != nil {
			return nil, closeAll, err
		}
		targets = append(targets, t)
		load := f.options
		load.Target, load.Name, load.Prefix = t, address, "load-"+rand.Text()+"-"
		run, err := loadgen.New(load)
		if err != nil {
			return nil, closeAll, err
		}
		runs = append(runs, run)
	}
	return runs, closeAll, nil
}

func (p *program) load(ctx context.Context, f *loadFlags) error {
	if err := checkWritable(f.svg); err != nil {
		return err
	}
	ctx, stop := cli.UntilInterrupted(ctx)
	defer stop()
	runs, closeAll, err := f.runs(ctx)
	if err != nil {
		return err
	}
	report := loadReport{Targets: make([]loadgen.Report, len(runs))}
	if slices.ContainsFunc(f.addresses, func(a string) bool { return target.HasLimit(a, f.rule) }) {
		report.Limit = f.limit
	}
	var sending sync.WaitGroup
	for i, run := range runs {
		sending.Go(func() { report.Targets[i] = run.Do(ctx) })
	}
	done := make(chan struct{})
	go func() {
		sending.Wait()
		close(done)
	}()
	p.watchLoad(runs, done)
	if err := closeAll(); err != nil {
		return err
	}
	report.Interrupted = ctx.Err() != nil
	return p.showLoad(f, &report)
}

// watchLoad draws live results until done is closed.
func (p *program) watchLoad(runs []*loadgen.Run, done <-chan struct{}) {
	screen := &terminal.Screen{W: p.Stderr, Live: terminal.CanRedraw(p.Stderr, p.Environ)}
	if !screen.Live {
		<-done
		return
	}
	defer screen.HideCursor()()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			screen.Draw(nil)
			return
		case <-ticker.C:
		}
		var frame []string
		for _, run := range runs {
			frame = append(frame, loadFrame(screen, run.Report())...)
		}
		screen.Draw(frame)
	}
}

// loadFrame returns the live view of one target.
func loadFrame(s *terminal.Screen, r loadgen.Report) []string {
	failed := ""
	if r.Errors > 0 {
		reason := output.Truncate(output.Sanitize(r.FirstError), 60)
		failed = s.Paint(terminal.Red, fmt.Sprintf("  %d errors: %s", r.Errors, reason))
	}
	return []string{
		s.Paint(terminal.Bold, r.Target) + fmt.Sprintf("  %.1f s", r.Seconds) + failed,
		fmt.Sprintf("  %8.0f/s  p50 %8s  p99 %8s  max %8s", r.Achieved, latencyText(r.Latency.At(50)),
			latencyText(r.Latency.At(99)), latencyText(r.Latency.Max())),
		"  " + s.Paint(terminal.Cyan, secondsPlot(r.PerSecond)),
	}
}

// showLoad prints the report. It returns an ExitError if requests failed or were not sent.
func (p *program) showLoad(f *loadFlags, report *loadReport) error {
	failed := slices.ContainsFunc(report.Targets, func(r loadgen.Report) bool { return r.Errors+r.Unsent > 0 })
	err := p.showMeasured(f.out, report, report.Interrupted, failed, func() error { return p.printLoad(report) })
	if f.svg != "" {
		if err := os.WriteFile(f.svg, []byte(loadChart(report).SVG(true)), 0o644); err != nil {
			return err
		}
	}
	return err
}
