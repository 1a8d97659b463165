package core

import (
	"context"
	"fmt"
	"slices"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

// Growers returns the contenders whose growth is measured: headgate, the two fastest peers of the uniform scenario (or
// two that are usually fast, if that was not run), the floor, whose table never grows, and finally the empty loop,
// which runs for as long as headgate did.
func Growers(r *harness.Results) []string {
	peers := []string{"throttled", "go-limiter"}
	if t := r.SpeedNamed("uniform-1"); t != nil {
		rows := slices.DeleteFunc(slices.Clone(t.Rows), func(row harness.SpeedRow) bool { return row.Role != harness.Peer })
		slices.SortFunc(rows, harness.BySpeed)
		peers = peers[:0]
		for _, row := range rows[:min(2, len(rows))] {
			peers = append(peers, row.Contender)
		}
	}
	return append(append([]string{"headgate"}, peers...), "floor", "loop")
}

// runGrowth times every insertion while tables grow from empty. Each contender runs once per round, in a new process.
func runGrowth(ctx context.Context, b *harness.Bench) error {
	names := Growers(b.Results)
	rows := make([]harness.GrowthRow, len(names))
	steps, step := len(names)*b.Sizes.GrowthRounds, 0
	for round := range b.Sizes.GrowthRounds {
		var seconds float64
		for i, name := range names {
			e, err := limiters.EntryNamed(limiters.Entries(), name)
			if err != nil {
				return err
			}
			b.Progress.At(float64(step)/float64(steps), fmt.Sprintf("growth, round %d of %d", round+1, b.Sizes.GrowthRounds),
				name)
			step++
			g, err := harness.RunChildOnce[harness.Growth](ctx, harness.ChildFlags{
				Mode: harness.ChildGrowth, Contender: name,
				Quota: "steady", Keys: b.Sizes.Grown, Seconds: seconds,
			})
			if err != nil {
				return err
			}
			if e.Role == harness.Ours {
				seconds = g.Seconds
			}
			rows[i].Contender, rows[i].Title, rows[i].Role = e.Name, e.Title, e.Role
			rows[i].Runs = append(rows[i].Runs, g)
		}
	}
	b.Results.Growth = rows
	return nil
}
