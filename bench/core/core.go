package core

import (
	"context"

	"github.com/headgate/headgate/bench/harness"
)

// coreScenarios are the scenarios of limiters in one process.
func coreScenarios() []harness.Scenario {
	list := []harness.Scenario{}
	for _, g := range SpeedGroups() {
		list = append(list, harness.Scenario{
			Name: g.Name, Seconds: g.seconds,
			Run: func(ctx context.Context, b *harness.Bench) error { return runSpeed(ctx, b, g) },
		})
	}
	return append(list,
		harness.Scenario{Name: "memory", Seconds: 420, Run: runMemory},
		harness.Scenario{Name: "table", Seconds: 10, Run: runTable},
		harness.Scenario{Name: "huge", Seconds: 240, Run: runHuge},
		harness.Scenario{Name: "gc", Seconds: 90, Run: runGC},
		harness.Scenario{Name: "growth", Seconds: 120, Run: runGrowth},
	)
}
