package core

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

// runMemory fills every contender with new keys. Each number of keys is measured in a new process.
func runMemory(ctx context.Context, b *harness.Bench) error {
	staff := slices.DeleteFunc(limiters.Entries(), func(e limiters.Entry) bool {
		return e.Single || e.Variant ||
			e.Role == harness.Loop
	})
	steps, step := len(staff)*len(b.Sizes.Memory), 0
	for _, e := range staff {
		row := harness.MemoryRow{Contender: e.Name, Title: e.Title, Role: e.Role}
		for _, keys := range b.Sizes.Memory {
			b.Progress.At(float64(step)/float64(steps), "memory, "+e.Name, harness.HumanCount(keys)+" keys")
			step++
			filled, err := harness.RunChildOnce[harness.Filling](ctx, harness.ChildFlags{
				Mode:      harness.ChildMem,
				Contender: e.Name, Quota: "steady", Keys: keys, Picks: b.Sizes.Picks,
			})
			if err != nil {
				return err
			}
			row.Fillings = append(row.Fillings, filled)
		}
		b.Results.Memory = append(b.Results.Memory, row)
	}
	return nil
}

// runTable records the size of headgate's table while it grows.
func runTable(ctx context.Context, b *harness.Bench) error {
	b.Progress.At(0, "table, headgate", "")
	var at []string
	for _, n := range b.Sizes.Table {
		at = append(at, strconv.Itoa(n))
	}
	g, err := harness.RunChildOnce[harness.TableGrowth](ctx, harness.ChildFlags{
		Mode: harness.ChildTable, Contender: "headgate", Quota: "steady", Keys: slices.Max(b.Sizes.Table), At: strings.Join(
			at, ","),
	})
	if err != nil {
		return err
	}
	b.Results.Table = &g
	return nil
}
