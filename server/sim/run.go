package sim

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/headgate/headgate/server/sim/scenario"
)

// Results are the results of all variants of a scenario.
type Results struct {
	Scenario    string    `json:"scenario"`
	Description string    `json:"description,omitempty"`
	Seed        int       `json:"seed"`
	Duration    float64   `json:"durationSeconds"`
	SampleOneIn int       `json:"sampleOneIn"`
	Logs        []Log     `json:"logs,omitempty"` // that were replayed
	Results     []*Result `json:"results"`
}

// Progress is how far a simulation is.
type Progress struct {
	Variants, Ended int     // combinations of algorithm and mode, and how many have ended
	Part            float64 // of all simulated time, 0 to 1
	Requests        int64   // simulated so far
}

// Options are the settings of Run.
type Options struct {
	// Parallel is how many variants are simulated at the same time. Each needs its own memory. Default one per processor.
	Parallel int
	// Progress, if not nil, is called now and then, by one goroutine at a time.
	Progress func(Progress)
}

// eventsPerCheck is after how many events a simulation looks for an interruption and reports its progress.
const eventsPerCheck = 1 << 14

// Run simulates all variants of a valid scenario. If ctx ends, it returns the results so far, marked as partial, and
// the error of ctx. The results do not depend on Options.
func Run(ctx context.Context, s *scenario.Scenario, o Options) (*Results, error) {
	all := &Results{
		Scenario: s.Name, Description: s.Description, Seed: s.Seed, Duration: s.Duration.Seconds(),
		SampleOneIn: s.SampleOneIn,
	}
	variants := s.Variants()
	results, errs := make([]*Result, len(variants)), make([]error, len(variants))
	shared := newSharedProgress(len(variants), s.Duration, o.Progress)
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(cmp.Or(o.Parallel, runtime.GOMAXPROCS(0)), len(variants)) {
		workers.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					continue
				}
				results[i], errs[i] = runVariant(ctx, s, variants[i], func(requests int64, now time.Duration) {
					shared.update(i, requests, now)
				})
				shared.end(i)
			}
		})
	}
	for i := range variants {
		next <- i
	}
	close(next)
	workers.Wait()
	for _, r := range results {
		if r != nil {
			all.Results, all.Logs = append(all.Results, r), r.logs
		}
	}
	for _, err := range errs {
		if err != nil {
			return all, err
		}
	}
	return all, ctx.Err()
}

// A sharedProgress sums up the progress of all variants.
type sharedProgress struct {
	mu       sync.Mutex
	report   func(Progress) // may be nil
	duration time.Duration
	ended    int
	requests []int64
	now      []time.Duration
}

func newSharedProgress(variants int, duration time.Duration, report func(Progress)) *sharedProgress {
	return &sharedProgress{
		report: report, duration: duration, requests: make([]int64, variants), now: make([]time.Duration, variants),
	}
}

func (p *sharedProgress) update(variant int, requests int64, now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests[variant], p.now[variant] = requests, now
	if p.report == nil {
		return
	}
	total := Progress{Variants: len(p.now), Ended: p.ended}
	for i := range p.now {
		total.Requests += p.requests[i]
		total.Part += p.now[i].Seconds() / p.duration.Seconds() / float64(len(p.now))
	}
	p.report(total)
}

func (p *sharedProgress) end(variant int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
	p.now[variant] = p.duration
}

// runVariant simulates one variant.
func runVariant(
	ctx context.Context, s *scenario.Scenario, v scenario.Variant, progress func(requests int64, now time.Duration),
) (_ *Result, err error) {
	w, err := newWorld(s, v)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	w.startTraffic()
	w.startFaults()
	for n := 1; w.failed == nil && w.loop.Step(s.Duration); n++ {
		if n%eventsPerCheck == 0 {
			progress(w.result.Requests, w.loop.Now())
			if ctx.Err() != nil {
				break
			}
		}
	}
	if w.failed != nil {
		return nil, w.failed
	}
	w.result.finish(w)
	return w.result, ctx.Err()
}
