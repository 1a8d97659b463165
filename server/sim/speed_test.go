package sim_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/sim"
	"github.com/headgate/headgate/server/sim/scenario"
)

// BenchmarkTenNodes reports how many times faster than real time ten nodes are simulated, without and with faults.
func BenchmarkTenNodes(b *testing.B) {
	for _, name := range []string{"ten-nodes-plain", "ten-nodes"} {
		s, err := scenario.Load("../../examples/scenarios/" + name + ".yaml")
		if err != nil {
			b.Fatal(err)
		}
		for _, mode := range s.Modes {
			b.Run(name+"/"+mode.String(), func(b *testing.B) {
				one := *s
				one.Modes = []rules.Consistency{mode}
				b.ReportAllocs()
				var simulated time.Duration
				for b.Loop() {
					if _, err := sim.Run(b.Context(), &one, sim.Options{Parallel: 1}); err != nil {
						b.Fatal(err)
					}
					simulated += s.Duration
				}
				b.ReportMetric(simulated.Seconds()/b.Elapsed().Seconds(), "x-real-time")
			})
		}
	}
}
