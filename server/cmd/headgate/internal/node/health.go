package node

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/telemetry"
)

// A healthMeter computes the rates for heartbeats. It is safe for concurrent use.
type healthMeter struct {
	mu          sync.Mutex
	measuredAt  time.Time
	degraded    bool                   // the store was degraded at measuredAt
	failingOpen map[string]uint64      // requests per rule at measuredAt
	unlimited   uint64                 // requests at measuredAt
	calls       telemetry.Distribution // durations of store calls at measuredAt
	stats       control.HealthStats    // the result of the last measurement
}

// minInterval is the minimum time over which rates are measured. If a heartbeat follows sooner, it has the rates of the
// previous one.
const minInterval = time.Second

// measure returns the rates since the last measurement. When the store fails or responds again, it begins again: the
// rate of unlimited requests is that of the outage only, and ends with it.
func (m *healthMeter) measure(metrics *telemetry.Metrics, degraded bool, now time.Time) control.HealthStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	elapsed, changed := now.Sub(m.measuredAt), degraded != m.degraded
	if elapsed < minInterval && !changed {
		return m.stats
	}
	failingOpen, unlimited := metrics.FailingOpen()
	calls := metrics.StoreCalls()
	if !m.measuredAt.IsZero() {
		m.stats = control.HealthStats{StoreP99MS: 1000 * calls.QuantileSince(m.calls, 0.99)}
	}
	if !m.measuredAt.IsZero() && !changed {
		for rule, n := range failingOpen {
			if n > m.failingOpen[rule] {
				rate := float64(n-m.failingOpen[rule]) / elapsed.Seconds()
				m.stats.FailingOpen = append(m.stats.FailingOpen, control.RuleRate{Rule: rule, PerSecond: rate})
			}
		}
		slices.SortFunc(m.stats.FailingOpen, func(a, b control.RuleRate) int {
			return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(a.Rule, b.Rule))
		})
		m.stats.UnlimitedPerSecond = float64(unlimited-m.unlimited) / elapsed.Seconds()
	}
	m.measuredAt, m.degraded, m.failingOpen, m.unlimited, m.calls = now, degraded, failingOpen, unlimited, calls
	return m.stats
}

// healthStats returns the statistics of this node that alerts depend on.
func (n *Node) healthStats(now time.Time) *control.HealthStats {
	status, degraded := n.stores.Status()
	f := n.health.measure(n.metrics, degraded, now)
	f.FailingOpen = slices.Clone(f.FailingOpen)
	for _, shard := range status.Shards {
		if !shard.Up && !shard.Replaced {
			f.OpenShards = append(f.OpenShards, shard.Name)
		}
	}
	memory := n.stores.Memory.Stats()
	f.MemoryBytes, f.MemoryMaxBytes = memory.Bytes, memory.MaxBytes
	f.Servers = n.stores.ServerStats()
	if n.gateway != nil {
		earliest := map[string]time.Time{} // by listener
		for _, c := range n.gateway.Stats().Certificates {
			if other, ok := earliest[c.Listener]; !ok || c.NotAfter.Before(other) {
				earliest[c.Listener] = c.NotAfter
			}
		}
		for listener, expires := range earliest {
			f.Certificates = append(f.Certificates, control.CertificateExpiry{Listener: listener, Expires: expires.UTC()})
		}
		slices.SortFunc(f.Certificates, func(a, b control.CertificateExpiry) int { return cmp.Compare(a.Listener, b.Listener) })
	}
	f.Clamp()
	return &f
}
