package harness

import (
	"context"
	"time"
)

// A Bench is one run.
type Bench struct {
	Part     Part
	Sizes    sizes
	Results  *Results
	Progress *progress
	// headgate is the path of the program, set when it was built.
	headgate string
}

// A Scenario is one measurement of a run.
type Scenario struct {
	Name string
	// Seconds is the approximate duration at full size on two cores. Only the progress bar uses it.
	Seconds float64
	Run     func(ctx context.Context, b *Bench) error
}

// RunAll runs scenarios one after the other. If one fails, the failure is recorded and the others still run.
func (b *Bench) RunAll(ctx context.Context, list []Scenario) error {
	before := readTicks()
	for _, s := range list {
		b.Progress.scenario(s.Seconds)
		if err := s.Run(ctx, b); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b.Results.Failures = append(b.Results.Failures, s.Name+": "+err.Error())
		}
	}
	b.Results.Took = time.Since(b.Results.Started).Round(time.Second)
	b.Results.Machine.Steal = stealSince(before)
	b.Results.Bars = b.Part.Bars(b.Results)
	return nil
}
