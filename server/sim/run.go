package sim

import (
	"context"
	"errors"
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
	Results     []*Result `json:"results"`
}

// Progress is how far a simulation is.
type Progress struct {
	Variant, Variants int // the number of the current one, from 1
	Result            *Result
	Now, Duration     time.Duration // of the current variant
}

// eventsPerCheck is after how many events a simulation looks for an interruption and reports its progress.
const eventsPerCheck = 1 << 14

// Run simulates all variants of a valid scenario. If ctx ends, it returns the results so far, marked as partial, and
// the error of ctx. Progress, if not nil, is called now and then.
func Run(ctx context.Context, s *scenario.Scenario, progress func(Progress)) (*Results, error) {
	all := &Results{
		Scenario: s.Name, Description: s.Description, Seed: s.Seed, Duration: s.Duration.Seconds(),
		SampleOneIn: s.SampleOneIn,
	}
	variants := s.Variants()
	for i, v := range variants {
		if err := ctx.Err(); err != nil {
			return all, err
		}
		r, err := runVariant(ctx, s, v, func(r *Result, now time.Duration) {
			if progress != nil {
				progress(Progress{Variant: i + 1, Variants: len(variants), Result: r, Now: now, Duration: s.Duration})
			}
		})
		if r != nil {
			all.Results = append(all.Results, r)
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// runVariant simulates one variant.
func runVariant(
	ctx context.Context, s *scenario.Scenario, v scenario.Variant, progress func(*Result, time.Duration),
) (_ *Result, err error) {
	w, err := newWorld(s, v)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	w.startTraffic()
	w.startFaults()
	for n := 1; w.loop.Step(s.Duration); n++ {
		if w.failed != nil {
			return nil, w.failed
		}
		if n%eventsPerCheck == 0 {
			progress(w.result, w.loop.Now())
			if ctx.Err() != nil {
				break
			}
		}
	}
	w.result.finish(w)
	return w.result, ctx.Err()
}
