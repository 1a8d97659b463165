package main

import (
	"context"
	"fmt"
)

// collected are those whose garbage collection is measured, besides a process with nothing in it.
var collected = []string{"headgate", "go-limiter", "xtime-shards"}

// runGC measures full collections in processes that hold many keys, taking turns with one that holds none.
func runGC(ctx context.Context, b *bench) error {
	var workers []*worker
	defer func() { dismissAll(workers) }()
	for i, name := range append([]string{"loop"}, collected...) {
		e, err := entryNamed(name)
		if err != nil {
			return err
		}
		keys := b.sizes.Collected
		if e.role == loop {
			keys = 0
		}
		b.progress.at(0.8*float64(i)/float64(1+len(collected)), "gc, filling "+name, humanCount(keys)+" keys")
		w, err := hire(ctx, e, "steady", keys, b.sizes.Picks)
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	cpu, pause := make([][]float64, len(workers)), make([][]float64, len(workers))
	for round := range b.sizes.Rounds {
		for i, w := range workers {
			b.progress.at(0.8+0.2*float64(round)/float64(b.sizes.Rounds), fmt.Sprintf("gc, round %d of %d", round+1, b.sizes.Rounds), w.entry.name)
			answer, err := w.do(request{Do: doGC})
			if err != nil {
				return err
			}
			cpu[i] = append(cpu[i], answer.GC.CPU.Seconds()*1e3)
			pause[i] = append(pause[i], answer.GC.Pause.Seconds()*1e3)
		}
	}
	for i, w := range workers {
		row := gcRow{
			Contender: w.entry.name, Title: w.entry.title, Role: w.entry.role, Keys: w.filled.Keys,
			CPU: spreadOf(cpu[i]), Pause: spreadOf(pause[i]),
		}
		if w.entry.role == loop {
			row.Title = "an empty process"
		}
		b.results.GC = append(b.results.GC, row)
	}
	return nil
}
