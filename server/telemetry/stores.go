package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
)

func collectMemory(ch chan<- prometheus.Metric, m *memstore.Stats) {
	const store = "memory"
	ch <- gauge(memoryKeysDesc, float64(m.Keys), store)
	ch <- gauge(memoryBytesDesc, float64(m.Bytes), store)
	ch <- gauge(memoryMaxDesc, float64(m.MaxBytes), store)
	ch <- counter(memoryEvictionsDesc, m.Evictions, store)
	ch <- counter(memoryRefusalsDesc, m.Refusals, store)
}

func collectGuard(ch chan<- prometheus.Metric, g *guard.Stats) {
	ch <- counter(guardCallsDesc, g.Calls)
	ch <- counter(guardWaitsDesc, g.Waits)
	ch <- counter(guardSkippedDesc, g.WaitsSkipped)
	ch <- counter(guardQueuedDesc, g.Queued)
	ch <- counter(guardRefusedDesc, g.Overloaded)
	ch <- counter(guardLocalDesc, g.LocalFailures)
	ch <- counter(guardFailuresDesc, g.Timeouts, "timeout")
	ch <- counter(guardFailuresDesc, notNegative(g.Failures-g.Timeouts), "error")
	ch <- counter(guardProbesDesc, notNegative(g.Probes-g.ProbesFailed), "ok")
	ch <- counter(guardProbesDesc, g.ProbesFailed, "failed")
	ch <- counter(guardCacheDesc, g.CacheHits, "remembered")
	ch <- counter(guardCacheDesc, g.SharedDenials, "shared")
	ch <- counter(guardLostDesc, g.ChargesDropped, "charges")
	ch <- counter(guardLostDesc, g.UnitsNotReturned, "gives")
	ch <- counter(guardLostDesc, g.RefundsDropped, "refunds")
	ch <- counter(guardLostDesc, g.EventsDropped, "events")
	ch <- counter(guardPoliciesDesc, g.Open, "open")
	ch <- counter(guardPoliciesDesc, g.Closed, "closed")
	ch <- counter(guardPoliciesDesc, g.Local, "local")
}

// notNegative returns a difference of two counters, or 0 if it is negative. It can be negative because the counters are
// not read at the same moment.
func notNegative(difference int64) int64 { return max(0, difference) }

func collectServer(ch chan<- prometheus.Metric, s *redisstore.ShardHealth) {
	role := "replica"
	if s.Primary {
		role = "primary"
	}
	ch <- gauge(serverUpDesc, boolGauge(s.Err == nil), s.Server, role)
	ch <- counter(serverConnectsDesc, s.Connects, s.Server, role)
	ch <- counter(serverHangsDesc, s.Hangs, s.Server, role)
	ch <- counter(serverUnansweredDesc, s.Unanswered, s.Server, role)
	ch <- counter(serverRefusedDesc, s.Refused, s.Server, role)
	ch <- counter(serverRedirectsDesc, s.Redirects, s.Server, role)
	if s.Err != nil && s.Version == "" { // the server has never reported the statistics below
		return
	}
	ch <- counter(serverEvictedDesc, s.Evicted, s.Server, role)
	ch <- gauge(serverPingDesc, s.Ping.Seconds(), s.Server, role)
	ch <- gauge(serverMemoryDesc, float64(s.MemoryUsed), s.Server, role)
	ch <- gauge(serverMaxDesc, float64(s.MemoryMax), s.Server, role)
	if s.CPU >= 0 { // negative until two polls can be compared
		ch <- gauge(serverCPUDesc, s.CPU, s.Server, role)
	}
	ch <- counter(serverNetworkDesc, s.NetworkIn, s.Server, role, "in")
	ch <- counter(serverNetworkDesc, s.NetworkOut, s.Server, role, "out")
	ch <- gauge(serverSlotsDesc, float64(s.Slots), s.Server, role)
	ch <- gauge(serverClientsDesc, float64(s.Clients), s.Server, role)
	ch <- gauge(serverOpsDesc, float64(s.OpsPerSecond), s.Server, role)
	ch <- gauge(serverLagDesc, float64(s.LagBytes), s.Server, role)
}
