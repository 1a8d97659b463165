package telemetry

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/telemetry/traffic"
	"github.com/headgate/headgate/server/telemetry/traffic/decisionlog"
)

// Metrics has all metrics. Create it with New. It is safe for concurrent use.
type Metrics struct {
	registry     *prometheus.Registry
	registered   atomic.Bool // Register was called
	decisions    *decisions
	rules        ruleLoads
	decisionTime prometheus.Histogram
	storeTime    *prometheus.HistogramVec
	shardTime    observers
	gatewayTime  prometheus.Histogram
	upstreamTime observers
	storeErrors  *prometheus.CounterVec
	faults       *prometheus.CounterVec
	recorder     *traffic.Recorder // nil until Record
	log          *decisionlog.Log  // nil until LogDecisions
	shedsDetail  func() bool       // nil until ShedDetail
}

// New returns the metrics of a program with this version, including the metrics of the Go runtime and the process.
func New(version string) *Metrics {
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		decisions: newDecisions(),
		decisionTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: decisionSeconds,
			Help: "Duration of decisions, from the attributes of a request to the verdict. " +
				"About one in 32 is measured, so the count is not the number of decisions.",
			Buckets: []float64{
				250e-9, 500e-9, 1e-6, 2.5e-6, 5e-6, 10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3,
			},
		}),
		storeTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    storeSeconds,
			Help:    "Duration of calls to the remote store, including failed ones.",
			Buckets: storeBuckets,
		}, []string{"store", "op"}),
		shardTime: newObservers(prometheus.HistogramOpts{
			Name:    shardSeconds,
			Help:    "Duration of calls to a shard of the remote store, including failed ones.",
			Buckets: storeBuckets,
		}, "shard"),
		gatewayTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    gatewaySeconds,
			Help:    "Duration of requests to the gateway, apart from upgraded connections.",
			Buckets: requestBuckets,
		}),
		upstreamTime: newObservers(prometheus.HistogramOpts{
			Name:    upstreamSeconds,
			Help:    "Duration of requests to upstreams, until the response has been passed on, apart from upgraded connections.",
			Buckets: requestBuckets,
		}, "route"),
		storeErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: storeErrors,
			Help: "Failed calls to the remote store.",
		}, []string{"store", "op"}),
	}
	m.faults = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: faults,
		Help: "Internal faults by part of the program. The log has at most one of them per second.",
	}, []string{"part"})
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        prefix + "build_info",
		Help:        "1, with the version that runs.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()},
	}, func() float64 { return 1 })
	m.registry.MustRegister(
		m.decisions, &m.rules, m.decisionTime, m.storeTime, m.storeErrors, m.faults, build,
		m.shardTime.histograms, m.gatewayTime, m.upstreamTime.histograms,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Register adds the metrics of sources. It may be called once.
func (m *Metrics) Register(s *Sources) error {
	if !m.registered.CompareAndSwap(false, true) {
		return errors.New("telemetry: Register was called twice")
	}
	if err := m.registry.Register(sourcesCollector{s}); err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	return nil
}

// scrapeTimeout is the timeout of a scrape.
const scrapeTimeout = 10 * time.Second

// Handler returns a handler for scrapes, in the formats of Prometheus and OpenMetrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4,
		Timeout:             scrapeTimeout,
		EnableOpenMetrics:   true,
	})
}

// ExpectRules adds counters for rules that are about to come into force, so that their first decision is counted. The
// caller must then call SetRules or, if the rules are refused, KeepRules.
func (m *Metrics) ExpectRules(set *match.Set, shared bool) {
	m.decisions.expect(set.Rules(), shared)
	m.recordRules(set)
}

// A RuleLoad is a set of rules that came into force.
type RuleLoad struct {
	Set *match.Set
	// Shared reports whether nodes share the store. It determines the mode of rules without a consistency.
	Shared bool
	// Revision is the revision of the rules, and Loaded when they were loaded.
	Revision uint64
	Loaded   time.Time
}

// SetRules sets the rules in force. It must be called when the engine uses them. It deletes the counters of removed
// rules and keeps all others.
func (m *Metrics) SetRules(l RuleLoad) {
	m.decisions.setRules(l.Set.Rules(), l.Shared)
	m.recordRules(l.Set)
	m.rules.accept(&l)
}

// KeepRules reverts ExpectRules. set has the rules that stay in force.
func (m *Metrics) KeepRules(set *match.Set, shared bool) {
	m.decisions.setRules(set.Rules(), shared)
	m.recordRules(set)
}

// RulesAdvanced sets the revision of the rules in force after a change of clients only.
func (m *Metrics) RulesAdvanced(revision uint64, loaded time.Time) { m.rules.advance(revision, loaded) }

// RulesRefused counts a load of rules that were refused.
func (m *Metrics) RulesRefused() { m.rules.refuse() }

// RulesUnchanged counts a read of rules that are already in force.
func (m *Metrics) RulesUnchanged() { m.rules.keep() }

// Fault counts a fault of a part of the program. part is a label, so there must be few different values, and they must
// not come from clients.
func (m *Metrics) Fault(part string) { m.faults.WithLabelValues(part).Inc() }
