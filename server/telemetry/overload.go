package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/server/overload"
)

func collectOverload(ch chan<- prometheus.Metric, s *overload.Stats) {
	ch <- gauge(overloadStageDesc, float64(s.Stage))
	ch <- gauge(overloadWaitDesc, s.Wait.Seconds())
	ch <- gauge(overloadShareDesc, s.Share)
	for stage, n := range s.Shed {
		ch <- counter(overloadShedDesc, n, stage.String())
	}
}
