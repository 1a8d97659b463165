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
	// headgate is the path of the program once it was built.
	headgate string
}

// A scenario is one question that a run answers.
type scenario struct {
	name string
	// seconds is about how long it takes at full size on two cores. Only the progress bar believes it.
	seconds float64
	run     func(ctx context.Context, b *bench) error
}

// coreScenarios are those of limiters in one process.
func coreScenarios() []scenario {
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
	)
}

// A chosenPart is a part and those of its scenarios that are wanted.
type chosenPart struct {
	part
	list []scenario
}

// chosen returns the scenarios that a pattern names, of the part of that name or of all parts.
func chosen(only *regexp.Regexp, in string) ([]chosenPart, error) {
	var found []chosenPart
	var names, partNames []string
	for _, p := range parts() {
		partNames = append(partNames, p.name)
		if in != "" && in != p.name {
			continue
		}
		c := chosenPart{part: p}
		for _, s := range p.scenarios {
			names = append(names, s.name)
			if only == nil || only.MatchString(s.name) {
				c.list = append(c.list, s)
			}
		}
		if len(c.list) > 0 {
			found = append(found, c)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("-part %q: want one of %v", in, partNames)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("-only %q matches none of %v", only, names)
	}
	return found, nil
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
	b.results.Bars = partOf(b.results.Part).bars(b.results)
	return nil
}
