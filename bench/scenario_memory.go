package main

import (
	"context"
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
