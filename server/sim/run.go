package sim

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/sim/scenario"
)

// Results are the results of all variants of a scenario.
type Results struct {
	Scenario    string  `json:"scenario"`
	Description string  `json:"description,omitempty"`
	Seed        int     `json:"seed"`
	Duration    float64 `json:"duration_seconds"`
	SampleOneIn int     `json:"sample_one_in"`
	// Partial reports whether the run was interrupted. Results then has partial results, and results of variants that
	// were not simulated.
	Partial bool      `json:"partial"`
	Logs    []Log     `json:"logs,omitempty"` // the replayed access logs
	Results []*Result `json:"results"`
}

// Progress describes how much of a simulation has run.
type Progress struct {
	Runs     int     // number of runs: one for each combination of algorithm, mode and group of clients
	Ended    int     // number of runs that have ended
	Fraction float64 // fraction of the simulated time of all runs that has passed, from 0 to 1
	Requests int64   // number of requests so far
}

// Options are the settings of Run.
type Options struct {
	// Parallel is the number of simulations that run at the same time. A simulation is for one variant and one group of
	// clients, and needs its own memory. Default one per processor.
	Parallel int
	// Progress is called from time to time and when a run ends, by one goroutine at a time. It may be nil.
	Progress func(Progress)
}

// eventsPerReport is the number of events after which a simulation reports its progress.
const eventsPerReport = 1 << 14

// Run simulates all variants of a valid scenario. If ctx ends, Run marks the results so far as partial, and returns
// them with the error of ctx. Variants that were not simulated until then have a partial result without any requests.
// The results do not depend on Options.
func Run(ctx context.Context, s *scenario.Scenario, o Options) (*Results, error) {
	all := &Results{
		Scenario: s.Name, Description: s.Description, Seed: s.Seed, Duration: s.Duration.Seconds(),
		SampleOneIn: s.SampleOneIn,
	}
	runs := runsOf(s)
	shared := newSharedProgress(len(runs), s.Duration, o.Progress)
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(cmp.Or(o.Parallel, runtime.GOMAXPROCS(0)), len(runs)) {
		workers.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					continue
				}
				runs[i].simulate(ctx, s, func(requests int64, now time.Duration) { shared.update(i, requests, now) })
				if runs[i].err == nil {
					shared.end(i, runs[i].result.Requests)
				}
			}
		})
	}
	for i := range runs {
		next <- i
	}
	close(next)
	workers.Wait()
	for variantRuns := range slices.Chunk(runs, s.Groups) {
		r := resultOf(s, variantRuns)
		all.Results, all.Partial = append(all.Results, r), all.Partial || r.Partial
		if r.logs != nil {
			all.Logs = r.logs // all variants replay the same logs
		}
	}
	for i := range runs {
		if err := runs[i].err; err != nil {
			return all, err
		}
	}
	return all, ctx.Err()
}

// A run is the simulation of one group of clients under one variant.
type run struct {
	variant scenario.Variant
	group   int
	result  *Result // nil if it was not simulated
	err     error
}

// runsOf returns the runs of a scenario. The runs of a variant are next to each other.
func runsOf(s *scenario.Scenario) []run {
	var list []run
	for _, v := range s.Variants() {
		for group := range s.Groups {
			list = append(list, run{variant: v, group: group})
		}
	}
	return list
}

// resultOf returns the result of a variant, the sum of the runs of its groups. If some groups were not simulated, the
// result is partial. If no group was simulated, it has no requests.
func resultOf(s *scenario.Scenario, variantRuns []run) *Result {
	var all *Result
	missing := false
	for i := range variantRuns {
		switch r := variantRuns[i].result; {
		case r == nil:
			missing = true
		case all == nil:
			all = r
		default:
			all.join(r)
		}
	}
	if all == nil {
		all = newResult(s, variantRuns[0].variant)
	}
	all.setFigures(missing)
	return all
}

// A sharedProgress adds up the progress of all runs.
type sharedProgress struct {
	mu       sync.Mutex
	report   func(Progress) // may be nil
	duration time.Duration
	ended    int             // number of runs
	requests []int64         // by run
	now      []time.Duration // by run; the simulated time that has passed
}

func newSharedProgress(runs int, duration time.Duration, report func(Progress)) *sharedProgress {
	return &sharedProgress{
		report: report, duration: duration, requests: make([]int64, runs), now: make([]time.Duration, runs),
	}
}

// update reports the progress of a run.
func (p *sharedProgress) update(run int, requests int64, now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests[run], p.now[run] = requests, now
	p.reportLocked()
}

func (p *sharedProgress) reportLocked() {
	if p.report == nil {
		return
	}
	total := Progress{Runs: len(p.now), Ended: p.ended}
	for i := range p.now {
		total.Requests += p.requests[i]
		total.Fraction += p.now[i].Seconds() / p.duration.Seconds() / float64(len(p.now))
	}
	p.report(total)
}

// end reports that a run has ended.
func (p *sharedProgress) end(run int, requests int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
	p.requests[run], p.now[run] = requests, p.duration
	p.reportLocked()
}

// simulate runs the simulation until it or ctx ends.
func (r *run) simulate(ctx context.Context, s *scenario.Scenario, progress func(requests int64, now time.Duration)) {
	w, err := newWorld(s, r.variant, r.group)
	if err != nil {
		r.err = err
		return
	}
	defer func() { r.err = errors.Join(r.err, w.close()) }()
	var interrupted atomic.Bool
	defer context.AfterFunc(ctx, func() { interrupted.Store(true) })()
	w.startTraffic(interrupted.Load)
	w.startFaults()
	for n := 1; w.err == nil && !interrupted.Load() && w.loop.Step(s.Duration); n++ {
		if n%eventsPerReport == 0 {
			progress(w.result.Requests, w.loop.Now())
		}
	}
	if r.err = w.err; r.err != nil {
		return
	}
	w.result.readWorld(w)
	r.result, r.err = w.result, ctx.Err()
}
