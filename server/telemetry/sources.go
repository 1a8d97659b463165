package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Sources provide figures at each scrape. Nil sources are left out. Register them only once.
type Sources struct {
	// Memory returns the figures of memory stores.
	Memory func() []Memory
	// Guard returns the figures of the guard of a remote store, and Shards its circuits.
	Guard  func() Guard
	Shards func() []Shard
	// Servers returns the latest known state of the Redis servers.
	Servers func() []Server
	// LostRefunds returns the units that could not be returned to the remote store.
	LostRefunds func() int64
	// Fleet returns how limits are shared with other nodes.
	Fleet func() Fleet
	// Follow returns how the rules of a rules service are followed.
	Follow func() Follow
	// Database returns whether rules can be changed, nil while that is not known.
	Database func() *DatabaseStatus
	// Waiting returns the number of delayed requests.
	Waiting func() int
	// Gateway returns the figures of the gateway.
	Gateway func() Gateway
	// Service returns the figures of the listeners of the decision service.
	Service func() []Listener
	// Envoy returns the figures of the Envoy rate limit service.
	Envoy func() Envoy
	// RESP returns the figures of the server for Redis clients.
	RESP func() RESP
}

var _ prometheus.Collector = (*Sources)(nil)

// Memory has the figures of a memory store.
type Memory struct {
	// Store is the store's name.
	Store                                      string
	Keys, Bytes, MaxBytes, Evictions, Refusals int64
}

// Guard has the figures of a guard.
type Guard struct {
	Calls, Failures, Timeouts                                int64
	Probes, ProbesFailed                                     int64
	Open, Closed, Local                                      int64 // decisions by policy
	LocalFailures                                            int64
	Waits, Ungated                                           int64
	Queued, Overloaded                                       int64
	CacheHits, Shared                                        int64 // denials without a call
	ChargesDropped, GivesDropped, RefundsDropped, EventsLost int64
}

// A Shard is the circuit of one server.
type Shard struct {
	Name string
	Open bool
}

// Describe sends the descriptions of all metrics.
func (s *Sources) Describe(ch chan<- *prometheus.Desc) {
	send := func(there bool, list ...*prometheus.Desc) {
		for _, d := range list {
			if there {
				ch <- d
			}
		}
	}
	send(s.Memory != nil, memoryKeysDesc, memoryBytesDesc, memoryMaxDesc, memoryEvictionsDesc, memoryRefusalsDesc)
	send(s.Guard != nil, guardCallsDesc, guardFailuresDesc, guardProbesDesc, guardCacheDesc, guardLostDesc,
		guardPoliciesDesc,
		guardWaitsDesc, guardUngatedDesc, guardLocalDesc, guardQueuedDesc, guardRefusedDesc)
	send(s.Shards != nil, breakerDesc)
	send(s.LostRefunds != nil, storeLostDesc)
	send(s.Waiting != nil, waitingDesc)
	send(s.Fleet != nil, fleetDescs...)
	send(s.Follow != nil, followDescs...)
	send(s.Database != nil, databaseDesc)
	if s.Servers != nil {
		describeServers(ch)
	}
	if s.Gateway != nil {
		describeGateway(ch)
	}
	send(s.Service != nil, serviceConnsDesc, serviceAcceptedDesc)
	if s.Envoy != nil {
		describeEnvoy(ch)
	}
	if s.RESP != nil {
		describeRESP(ch)
	}
}

// Collect sends the figures of all sources.
func (s *Sources) Collect(ch chan<- prometheus.Metric) {
	if s.Memory != nil {
		for _, m := range s.Memory() {
			ch <- gauge(memoryKeysDesc, float64(m.Keys), m.Store)
			ch <- gauge(memoryBytesDesc, float64(m.Bytes), m.Store)
			ch <- gauge(memoryMaxDesc, float64(m.MaxBytes), m.Store)
			ch <- counter(memoryEvictionsDesc, m.Evictions, m.Store)
			ch <- counter(memoryRefusalsDesc, m.Refusals, m.Store)
		}
	}
	if s.Guard != nil {
		s.Guard().collect(ch)
	}
	if s.Shards != nil {
		for _, shard := range s.Shards() {
			ch <- gauge(breakerDesc, boolGauge(shard.Open), shard.Name)
		}
	}
	if s.LostRefunds != nil {
		ch <- counter(storeLostDesc, s.LostRefunds())
	}
	if s.Fleet != nil {
		f := s.Fleet()
		f.collect(ch)
	}
	if s.Follow != nil {
		now := s.Follow()
		now.collect(ch)
	}
	if s.Database != nil {
		if now := s.Database(); now != nil {
			ch <- gauge(databaseDesc, boolGauge(now.Writable))
		}
	}
	if s.Waiting != nil {
		ch <- gauge(waitingDesc, float64(s.Waiting()))
	}
	if s.Servers != nil {
		for _, server := range s.Servers() {
			server.collect(ch)
		}
	}
	if s.Gateway != nil {
		g := s.Gateway()
		g.collect(ch)
	}
	if s.Service != nil {
		for _, l := range s.Service() {
			l.collect(ch)
		}
	}
	if s.Envoy != nil {
		e := s.Envoy()
		e.collect(ch)
	}
	if s.RESP != nil {
		r := s.RESP()
		r.collect(ch)
	}
}

func (g Guard) collect(ch chan<- prometheus.Metric) {
	ch <- counter(guardCallsDesc, g.Calls)
	ch <- counter(guardWaitsDesc, g.Waits)
	ch <- counter(guardUngatedDesc, g.Ungated)
	ch <- counter(guardQueuedDesc, g.Queued)
	ch <- counter(guardRefusedDesc, g.Overloaded)
	ch <- counter(guardLocalDesc, g.LocalFailures)
	for _, c := range []struct {
		desc  *prometheus.Desc
		label string
		n     int64
	}{
		{guardFailuresDesc, "timeout", g.Timeouts},
		{guardFailuresDesc, "error", g.Failures - g.Timeouts},
		{guardProbesDesc, "ok", g.Probes - g.ProbesFailed},
		{guardProbesDesc, "failed", g.ProbesFailed},
		{guardCacheDesc, "remembered", g.CacheHits},
		{guardCacheDesc, "shared", g.Shared},
		{guardLostDesc, "charges", g.ChargesDropped},
		{guardLostDesc, "gives", g.GivesDropped},
		{guardLostDesc, "refunds", g.RefundsDropped},
		{guardLostDesc, "events", g.EventsLost},
		{guardPoliciesDesc, "open", g.Open},
		{guardPoliciesDesc, "closed", g.Closed},
		{guardPoliciesDesc, "local", g.Local},
	} {
		ch <- counter(c.desc, max(0, c.n), c.label) // figures read one after the other may not add up
	}
}
