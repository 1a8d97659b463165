package healthmeter

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/telemetry"
)

const (
	// window is the time over which rates are averages, and for how long the last request without a limit is reported.
	window = 10 * time.Second
	// quiet is the minimum time after which there are no such requests any more. It is a little shorter than two intervals
	// of callers that observe twice a second.
	quiet = 900 * time.Millisecond
	// minElapsed is the minimum time by which counts are divided for a rate, so that one request is no high rate.
	minElapsed = time.Second
)

// Metrics are the counters that a Meter reads. They never decrease.
type Metrics interface {
	// FailingOpen returns the requests of each rule that were admitted because the store failed, and the number of these
	// requests. OtherFallbacks returns those of rules with another policy, and Degraded the number of all.
	FailingOpen() (counts map[string]uint64, requests uint64)
	OtherFallbacks() map[string]uint64
	Degraded() uint64
	StoreCalls() telemetry.Distribution
}

var _ Metrics = (*telemetry.Metrics)(nil)

// A Meter computes the statistics of heartbeats. The zero value is ready to use. A Meter is safe for concurrent use.
type Meter struct {
	mu       sync.Mutex
	degraded bool          // the store was degraded at the last reading
	readings []reading     // those of the last window, the oldest first
	since    time.Time     // when requests without a limit began; zero if there are none
	last     time.Time     // the reading that has counted the last one of them
	gap      time.Duration // the longest time between two of them

	callsAt time.Time
	calls   telemetry.Distribution // at callsAt
	p99MS   float64
}

// A reading has the counters of a node at a time. Its maps do not change.
type reading struct {
	at                  time.Time
	degraded, unlimited uint64
	open, other         map[string]uint64
}

// A Phase reports whether requests pass without a limit. It changes when they begin and when they end.
type Phase struct {
	// Since is when they began. It is zero if there were none in the last seconds.
	Since time.Time
	// Ended means that there are none now.
	Ended bool
}

// Observe reads the counters and returns the current phase. degraded reports whether the store is unreachable. When
// the store is reachable again, the outage has ended, and its requests are no longer reported.
func (m *Meter) Observe(metrics Metrics, degraded bool, now time.Time) Phase {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.observe(metrics, degraded, now)
}

func (m *Meter) observe(metrics Metrics, degraded bool, now time.Time) Phase {
	current := m.read(metrics, now)
	recovered := m.degraded && !degraded
	m.degraded = degraded
	if n := len(m.readings); n > 0 && !recovered && current.unlimited > m.readings[n-1].unlimited {
		if m.since.IsZero() {
			m.since, m.last = m.readings[n-1].at, now
		}
		m.gap, m.last = max(m.gap, now.Sub(m.last)), now
	}
	if recovered || now.Sub(m.last) > window {
		m.since, m.last, m.gap = time.Time{}, time.Time{}, 0
	}
	if recovered {
		m.readings = nil
	}
	m.readings = append(m.readings, current)
	// The first reading is the latest one that is not within the window, to which rates are relative.
	for len(m.readings) > 1 && now.Sub(m.readings[1].at) >= window {
		m.readings = m.readings[1:]
	}
	return Phase{m.since, m.ended(now)}
}

// read returns a reading. The counters of rules are read only if there were requests that the store did not decide.
func (m *Meter) read(metrics Metrics, now time.Time) reading {
	current := reading{at: now, degraded: metrics.Degraded()}
	if n := len(m.readings); n > 0 && m.readings[n-1].degraded == current.degraded {
		current = m.readings[n-1]
		current.at = now
		return current
	}
	current.open, current.unlimited = metrics.FailingOpen()
	current.other = metrics.OtherFallbacks()
	return current
}

// ended reports whether there are no requests without a limit any more. If they come now and then, it waits for twice
// their longest gap, so that it does not change with each of them.
func (m *Meter) ended(now time.Time) bool {
	return !m.since.IsZero() && now.Sub(m.last) >= max(quiet, 2*m.gap)
}

// Stats returns the statistics for a heartbeat. It also observes, as Observe does.
func (m *Meter) Stats(metrics Metrics, degraded bool, now time.Time) control.HealthStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.observe(metrics, degraded, now)
	if now.Sub(m.callsAt) >= minElapsed {
		calls := metrics.StoreCalls()
		if !m.callsAt.IsZero() {
			m.p99MS = 1000 * calls.QuantileSince(m.calls, 0.99)
		}
		m.callsAt, m.calls = now, calls
	}
	stats := control.HealthStats{StoreP99MS: m.p99MS}
	current, base := &m.readings[len(m.readings)-1], m.base()
	stats.OtherFallbacks = slices.Sorted(maps.Keys(grown(base.other, current.other)))
	if m.since.IsZero() {
		return stats
	}
	end := now
	if m.ended(now) {
		end = m.last
		stats.UnlimitedUntil = end.UTC()
	}
	seconds := max(end.Sub(base.at), minElapsed).Seconds()
	for rule, n := range grown(base.open, current.open) {
		stats.FailingOpen = append(stats.FailingOpen, control.RuleRate{Rule: rule, PerSecond: float64(n) / seconds})
	}
	slices.SortFunc(stats.FailingOpen, func(a, b control.RuleRate) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(a.Rule, b.Rule))
	})
	stats.FailingOpenRules = len(stats.FailingOpen)
	stats.UnlimitedPerSecond = float64(current.unlimited-base.unlimited) / seconds
	stats.UnlimitedSince = m.since.UTC()
	return stats
}

// base returns the reading to which rates are relative: the first one since the requests began.
func (m *Meter) base() *reading {
	for i := range m.readings {
		if !m.readings[i].at.Before(m.since) {
			return &m.readings[i]
		}
	}
	return &m.readings[len(m.readings)-1]
}

// grown returns by how much counters have increased, without those that have not.
func grown(before, now map[string]uint64) map[string]uint64 {
	result := map[string]uint64{}
	for rule, n := range now {
		if n > before[rule] {
			result[rule] = n - before[rule]
		}
	}
	return result
}
