package core

import (
	"context"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

// runHuge compares headgate with the floors at the largest size. All processes stay alive and take turns.
func runHuge(ctx context.Context, b *harness.Bench) error {
	keys := b.Sizes.Huge
	result := &harness.HugeResult{Keys: keys, Fillings: map[string]harness.Filling{}}
	var workers []*Worker
	defer func() { StopAll(workers) }()
	for i, name := range []string{"headgate", "floor", "floor-large"} {
		b.Progress.At(0.2*float64(i), "huge, filling "+name, harness.HumanCount(keys)+" keys")
		e, err := limiters.EntryNamed(limiters.Entries(), name)
		if err != nil {
			return err
		}
		w, err := StartWorker(ctx, e, "steady", keys, b.Sizes.HugeOps)
		if err != nil {
			return err
		}
		workers = append(workers, w)
		result.Fillings[name] = w.filled
	}
	title := harness.HumanCount(keys) + " live keys, uniform, "
	t := &Turns{
		Workers: workers, Rounds: b.Sizes.HugeRounds, Ops: b.Sizes.HugeOps,
		Cases: []SpeedCase{
			{"huge-1", harness.Uniform, 1, title + "1 goroutine"},
			{"huge-2", harness.Uniform, 2, title + "2 goroutines"},
		},
		Tell: func(part float64, stage, detail string) { b.Progress.At(0.6+0.4*part, "huge, "+stage, detail) },
	}
	tables, err := t.Take()
	if err != nil {
		return err
	}
	result.Speed = tables
	last, err := workers[0].Do(Request{Do: doTable})
	if err != nil {
		return err
	}
	result.Live = last.Table.Keys
	b.Results.Huge = result
	return checkComplete(workers[0].Entry, last.Table, keys)
}
