package telemetry

import (
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/headgate/headgate/rules"
)

// Metrics are everything that is measured. Make them with New. They are safe for concurrent use.
type Metrics struct {
	registry  *prometheus.Registry
	decisions *decisions
	rules     ruleLoads
	took      prometheus.Histogram
	store     *prometheus.HistogramVec
	failed    *prometheus.CounterVec
	faults    *prometheus.CounterVec
}

// New returns the metrics of a program of that version, with those of the Go runtime and of the process.
func New(version string) *Metrics {
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		decisions: newDecisions(),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: decisionSeconds,
			Help: "How long decisions took, from the attributes of a request to the verdict. About one in 32 is measured, so its count is not that of all.",
			Buckets: []float64{
				250e-9, 500e-9, 1e-6, 2.5e-6, 5e-6, 10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3,
			},
		}),
		store: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    storeSeconds,
			Help:    "How long calls of the remote store took, those that failed included.",
			Buckets: []float64{50e-6, 100e-6, 200e-6, 300e-6, 500e-6, 750e-6, 1e-3, 1.5e-3, 2.5e-3, 5e-3, 10e-3, 15e-3, 20e-3, 25e-3, 50e-3, 100e-3},
		}, []string{"store", "op"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: storeErrors,
			Help: "Calls of the remote store that returned an error.",
		}, []string{"store", "op"}),
	}
	m.faults = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: faults,
		Help: "Faults that no client gets to see: the log has one of them a second. By the part that has failed.",
	}, []string{"part"})
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        prefix + "build_info",
		Help:        "1, with the version that runs.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()},
	}, func() float64 { return 1 })
	m.registry.MustRegister(
		m.decisions, &m.rules, m.took, m.store, m.failed, m.faults, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Register adds what is measured elsewhere: Sources, or a collector of the caller's own.
func (m *Metrics) Register(c prometheus.Collector) error {
	if err := m.registry.Register(c); err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	return nil
}

// scrapeTimeout is how long a scrape may take.
const scrapeTimeout = 10 * time.Second

// Handler returns what answers scrapes, in the formats that Prometheus and OpenTelemetry collectors read.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4,
		Timeout:             scrapeTimeout,
		EnableOpenMetrics:   true,
	})
}

// ExpectRules makes ready for rules that are about to come into force, beside those that are, so that not even the first
// decision is counted elsewhere. SetRules follows or, if they are refused, KeepRules.
func (m *Metrics) ExpectRules(set *rules.Set, shared bool) { m.decisions.expect(set.Rules(), shared) }

// A RuleLoad is rules that came into force.
type RuleLoad struct {
	Set *rules.Set
	// Shared tells that the store is shared by hosts, which decides the mode of rules that name none.
	Shared bool
	// Revision is their number, and Loaded when they were loaded.
	Revision uint64
	Loaded   time.Time
}

// SetRules says which rules are in force from now on. Call it after the engine has taken them. Rules that are gone lose
// their counters; those that stay keep them.
func (m *Metrics) SetRules(l RuleLoad) {
	m.decisions.setRules(l.Set.Rules(), l.Shared)
	m.rules.accept(&l)
}

// KeepRules says that the rules in force before ExpectRules stay.
func (m *Metrics) KeepRules(set *rules.Set, shared bool) { m.decisions.setRules(set.Rules(), shared) }

// RulesAdvanced says that the rules in force are those of a later revision, in which only clients have changed.
func (m *Metrics) RulesAdvanced(revision uint64, loaded time.Time) { m.rules.advance(revision, loaded) }

// RulesRefused says that rules were read and are wrong, so that those in force stay.
func (m *Metrics) RulesRefused() { m.rules.refuse() }

// RulesUnchanged says that rules were read and are those in force.
func (m *Metrics) RulesUnchanged() { m.rules.confirm() }

// Fault counts a fault of a part of the program: one of few names, never a client's.
func (m *Metrics) Fault(part string) { m.faults.WithLabelValues(part).Inc() }
