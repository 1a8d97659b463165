package main

import (
	"context"
	"fmt"
	"regexp"
	"time"
)

// A bench is one run.
type bench struct {
	sizes    sizes
	results  *results
	progress *progress
}

// A scenario is one question that a run answers.
type scenario struct {
	name string
	// seconds is about how long it takes at full size on two cores. Only the progress bar believes it.
	seconds float64
	run     func(ctx context.Context, b *bench) error
}

func scenarios() []scenario {
	list := []scenario{}
	for _, g := range speedGroups() {
		list = append(list, scenario{g.name, g.seconds, func(ctx context.Context, b *bench) error { return b.runSpeed(ctx, g) }})
	}
	return append(list,
		scenario{"memory", 420, runMemory},
		scenario{"table", 10, runTable},
		scenario{"huge", 240, runHuge},
		scenario{"gc", 90, runGC},
		scenario{"growth", 120, runGrowth},
		scenario{"redis", 150, runRedis},
	)
}

// chosen returns the scenarios that a pattern names.
func chosen(only *regexp.Regexp) ([]scenario, error) {
	var list []scenario
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
		if only == nil || only.MatchString(s.name) {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("-only %q matches none of %v", only, names)
	}
	return list, nil
}

// runAll runs scenarios one after the other. One that fails is noted and the others still run.
func (b *bench) runAll(ctx context.Context, list []scenario) error {
	before := readTicks()
	for _, s := range list {
		b.progress.scenario(s.seconds)
		if err := s.run(ctx, b); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b.results.Failures = append(b.results.Failures, s.name+": "+err.Error())
		}
	}
	b.results.Took = time.Since(b.results.Started).Round(time.Second)
	b.results.Machine.Steal = stealSince(before)
	b.results.Bars = barsOf(b.results)
	return nil
}
