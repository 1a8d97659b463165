package core

import (
	"context"
	"fmt"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

// Collected are the contenders whose garbage collection is measured, in addition to an empty process.
var Collected = []string{"headgate", "go-limiter", "xtime-shards"}

// runGC measures full garbage collections in processes with many keys. They take turns with a process without keys.
func runGC(ctx context.Context, b *harness.Bench) error {
	var workers []*Worker
	defer func() { StopAll(workers) }()
	for i, name := range append([]string{"loop"}, Collected...) {
		e, err := limiters.EntryNamed(limiters.Entries(), name)
		if err != nil {
			return err
		}
		keys := b.Sizes.Collected
		if e.Role == harness.Loop {
			keys = 0
		}
		b.Progress.At(0.8*float64(i)/float64(1+len(Collected)), "gc, filling "+name, harness.HumanCount(keys)+" keys")
		w, err := StartWorker(ctx, e, "steady", keys, b.Sizes.Picks)
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	cpu, pause := make([][]float64, len(workers)), make([][]float64, len(workers))
	for round := range b.Sizes.Rounds {
		for i, w := range workers {
			b.Progress.At(0.8+0.2*float64(round)/float64(b.Sizes.Rounds), fmt.Sprintf("gc, round %d of %d", round+1,
				b.Sizes.Rounds), w.Entry.Name)
			answer, err := w.Do(Request{Do: doGC})
			if err != nil {
				return err
			}
			cpu[i] = append(cpu[i], answer.GC.CPU.Seconds()*1e3)
			pause[i] = append(pause[i], answer.GC.Pause.Seconds()*1e3)
		}
	}
	for i, w := range workers {
		row := harness.GcRow{
			Contender: w.Entry.Name, Title: w.Entry.Title, Role: w.Entry.Role, Keys: w.filled.Keys,
			CPU: harness.SpreadOf(cpu[i]), Pause: harness.SpreadOf(pause[i]),
		}
		if w.Entry.Role == harness.Loop {
			row.Title = "an empty process"
		}
		b.Results.GC = append(b.Results.GC, row)
	}
	return nil
}
