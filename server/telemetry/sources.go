package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/server/control/follow"
	"github.com/headgate/headgate/server/gateway"
	"github.com/headgate/headgate/server/overload"
	"github.com/headgate/headgate/server/service/envoyrls"
	"github.com/headgate/headgate/server/service/resp"
)

// Sources are functions that return the current statistics of the parts of a node. Each scrape calls them. A nil
// function is skipped.
type Sources struct {
	// Memory describes the in-memory store.
	Memory func() memstore.Stats
	// Guard describes the guard in front of Redis, which applies timeouts, failure policies and the deny cache. Shards
	// describes its circuits.
	Guard  func() guard.Stats
	Shards func() []ShardStatus
	// Servers returns the last known state of the Redis servers.
	Servers func() []redisstore.ShardHealth
	// LostRefunds counts units that could not be returned to Redis.
	LostRefunds func() int64
	// Fleet describes how limits are shared with other nodes.
	Fleet func() Fleet
	// Follow describes the connection to the rules service from which the node gets its rules.
	Follow func() follow.Status
	// Database returns the status of the rules service's database, nil while it is unknown.
	Database func() *DatabaseStatus
	// Enforcement describes the rules whose enforcement is suspended.
	Enforcement func() Enforcement
	// Overload describes what the node sheds because of its own load.
	Overload func() overload.Stats
	// Waiting returns the number of delayed requests.
	Waiting func() int
	Gateway func() gateway.Stats
	// Listeners are the listeners of the decision service.
	Listeners func() []Listener
	Envoy     func() envoyrls.Stats
	RESP      func() resp.Stats
}

// A Listener has the connection statistics of a listener of the decision service.
type Listener struct {
	Name string // api, grpc or resp
	// Open is the number of open connections. Accepted counts all connections, Refused those above the limit, and
	// Reclaimed the idle connections that were closed to make room for others.
	Open, Accepted, Refused, Reclaimed int64
}

// sourcesCollector sends the metrics of Sources.
type sourcesCollector struct{ *Sources }

var _ prometheus.Collector = sourcesCollector{}

// Describe sends nothing, because the set of metrics is not fixed.
func (sourcesCollector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics of all sources.
func (s sourcesCollector) Collect(ch chan<- prometheus.Metric) {
	collect(ch, s.Memory, collectMemory)
	collect(ch, s.Guard, collectGuard)
	collectEach(ch, s.Shards, func(ch chan<- prometheus.Metric, shard *ShardStatus) {
		ch <- gauge(breakerDesc, boolGauge(!shard.Up && !shard.Replaced), shard.Name)
	})
	collect(ch, s.LostRefunds, func(ch chan<- prometheus.Metric, n *int64) { ch <- counter(storeLostDesc, *n) })
	collect(ch, s.Fleet, collectFleet)
	collect(ch, s.Follow, collectFollow)
	collect(ch, s.Database, func(ch chan<- prometheus.Metric, status **DatabaseStatus) {
		if *status != nil {
			ch <- gauge(databaseDesc, boolGauge((*status).Writable))
		}
	})
	collect(ch, s.Enforcement, collectEnforcement)
	collect(ch, s.Waiting, func(ch chan<- prometheus.Metric, n *int) { ch <- gauge(waitingDesc, float64(*n)) })
	collect(ch, s.Overload, collectOverload)
	collectEach(ch, s.Servers, collectServer)
	collect(ch, s.Gateway, collectGateway)
	collectEach(ch, s.Listeners, func(ch chan<- prometheus.Metric, l *Listener) {
		ch <- gauge(serviceConnsDesc, float64(l.Open), l.Name)
		ch <- counter(serviceAcceptedDesc, l.Accepted, l.Name, "accepted")
		ch <- counter(serviceAcceptedDesc, l.Refused, l.Name, "refused")
		ch <- counter(serviceAcceptedDesc, l.Reclaimed, l.Name, "reclaimed")
	})
	collect(ch, s.Envoy, collectEnvoy)
	collect(ch, s.RESP, collectRESP)
}

// collect sends the metrics of one source, if there is one.
func collect[T any](ch chan<- prometheus.Metric, source func() T, send func(chan<- prometheus.Metric, *T)) {
	if source != nil {
		stats := source()
		send(ch, &stats)
	}
}

// collectEach sends the metrics of each element that a source returns.
func collectEach[T any](ch chan<- prometheus.Metric, source func() []T, send func(chan<- prometheus.Metric, *T)) {
	collect(ch, source, func(ch chan<- prometheus.Metric, list *[]T) {
		for i := range *list {
			send(ch, &(*list)[i])
		}
	})
}

func counter[T uint64 | int64](d *prometheus.Desc, n T, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func gauge(d *prometheus.Desc, n float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
}

func boolGauge(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
