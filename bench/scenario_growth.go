package main

import (
	"context"
	"fmt"
	"slices"
)

// growers returns who grows: headgate, the two fastest peers of the uniform scenario, or two that are fast as a rule if
// that was not run, the floor, whose table is made in one piece and never moves, and last the loop alone, which has to
// know how long headgate took.
func growers(r *results) []string {
	peers := []string{"throttled", "go-limiter"}
	if t := r.speed("uniform-1"); t != nil {
		rows := slices.DeleteFunc(slices.Clone(t.Rows), func(row speedRow) bool { return row.Role != peer })
		slices.SortFunc(rows, bySpeed)
		peers = peers[:0]
		for _, row := range rows[:min(2, len(rows))] {
			peers = append(peers, row.Contender)
		}
	}
	return append(append([]string{"headgate"}, peers...), "floor", "loop")
}

// runGrowth times every insertion while tables grow from nothing, everyone once a round and each time in a new process.
func runGrowth(ctx context.Context, b *bench) error {
	names := growers(b.results)
	rows := make([]growthRow, len(names))
	steps, step := len(names)*b.sizes.GrowthRounds, 0
	for round := range b.sizes.GrowthRounds {
		var seconds float64
		for i, name := range names {
			e, err := entryNamed(name)
			if err != nil {
				return err
			}
			b.progress.at(float64(step)/float64(steps), fmt.Sprintf("growth, round %d of %d", round+1, b.sizes.GrowthRounds), name)
			step++
			g, err := ask[growth](ctx, childFlags{mode: childGrowth, contender: name, quota: "steady", keys: b.sizes.Grown, seconds: seconds})
			if err != nil {
				return err
			}
			if e.role == ours {
				seconds = g.Seconds
			}
			rows[i].Contender, rows[i].Title, rows[i].Role = e.name, e.title, e.role
			rows[i].Runs = append(rows[i].Runs, g)
		}
	}
	b.results.Growth = rows
	return nil
}
