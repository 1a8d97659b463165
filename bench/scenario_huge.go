package main

import "context"

// runHuge compares headgate with the floors at the largest size, all alive and taking turns.
func runHuge(ctx context.Context, b *bench) error {
	keys := b.sizes.Huge
	result := &hugeResult{Keys: keys, Fillings: map[string]filling{}}
	var workers []*worker
	defer func() { dismissAll(workers) }()
	for i, name := range []string{"headgate", "floor", "floor-large"} {
		b.progress.at(0.2*float64(i), "huge, filling "+name, humanCount(keys)+" keys")
		e, err := entryNamed(name)
		if err != nil {
			return err
		}
		w, err := hire(ctx, e, "steady", keys, b.sizes.HugeOps)
		if err != nil {
			return err
		}
		workers = append(workers, w)
		result.Fillings[name] = w.filled
	}
	title := humanCount(keys) + " live keys, uniform, "
	t := &turns{
		workers: workers, rounds: b.sizes.HugeRounds, ops: b.sizes.HugeOps,
		cases: []speedCase{
			{"huge-1", uniform, 1, title + "1 goroutine"},
			{"huge-2", uniform, 2, title + "2 goroutines"},
		},
		tell: func(part float64, stage, detail string) { b.progress.at(0.6+0.4*part, "huge, "+stage, detail) },
	}
	tables, err := t.take()
	if err != nil {
		return err
	}
	result.Speed = tables
	last, err := workers[0].do(request{Do: doTable})
	if err != nil {
		return err
	}
	result.Live = last.Table.Keys
	b.results.Huge = result
	return complete(workers[0].entry, last.Table, keys)
}
