package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// runMemory fills every contender with fresh keys, each number of keys in a process of its own.
func runMemory(ctx context.Context, b *bench) error {
	staff := slices.DeleteFunc(entries(), func(e entry) bool { return e.single || e.variant || e.role == loop })
	steps, step := len(staff)*len(b.sizes.Memory), 0
	for _, e := range staff {
		row := memoryRow{Contender: e.name, Title: e.title, Role: e.role}
		for _, keys := range b.sizes.Memory {
			b.progress.at(float64(step)/float64(steps), "memory, "+e.name, humanCount(keys)+" keys")
			step++
			filled, err := ask[filling](ctx, childFlags{mode: childMem, contender: e.name, quota: "steady", keys: keys, picks: b.sizes.Picks})
			if err != nil {
				return err
			}
			row.Fillings = append(row.Fillings, filled)
		}
		b.results.Memory = append(b.results.Memory, row)
	}
	return nil
}

// runTable looks at headgate's table while it grows.
func runTable(ctx context.Context, b *bench) error {
	b.progress.at(0, "table, headgate", "")
	var at []string
	for _, n := range b.sizes.Table {
		at = append(at, strconv.Itoa(n))
	}
	g, err := ask[tableGrowth](ctx, childFlags{
		mode: childTable, contender: "headgate", quota: "steady", keys: slices.Max(b.sizes.Table), at: strings.Join(at, ","),
	})
	if err != nil {
		return err
	}
	b.results.Table = &g
	return nil
}

// runHuge compares headgate with the floor at the largest size, both alive and taking turns.
func runHuge(ctx context.Context, b *bench) error {
	keys := b.sizes.Huge
	result := &hugeResult{Keys: keys, Fillings: map[string]filling{}}
	var workers []*worker
	defer func() { dismissAll(workers) }()
	for i, name := range []string{"floor", "headgate"} {
		b.progress.at(0.3*float64(i), "huge, filling "+name, humanCount(keys)+" keys")
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
	last, err := workers[1].do(request{Do: doTable})
	if err != nil {
		return err
	}
	result.Live = last.Table.Keys
	b.results.Huge = result
	return complete(workers[1].entry, last.Table, keys)
}

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
