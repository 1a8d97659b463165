package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/follow"
)

// ruleLoads is the collector for the rules in force and the results of loading them.
type ruleLoads struct {
	mu                     sync.Mutex
	rules                  int // number of rules
	revision               uint64
	loaded                 time.Time
	stale                  bool // the latest load was refused
	ok, unchanged, refused uint64
}

// accept records a load of new rules.
func (l *ruleLoads) accept(load *RuleLoad) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules, l.revision, l.loaded, l.stale = load.Set.Len(), load.Revision, load.Loaded, false
	l.ok++
}

// advance records a new revision with the same rules.
func (l *ruleLoads) advance(revision uint64, loaded time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision, l.loaded, l.stale = revision, loaded, false
}

// keep records a load in which the rules were unchanged.
func (l *ruleLoads) keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stale = false
	l.unchanged++
}

// refuse records a load that failed. The previous rules stay in force.
func (l *ruleLoads) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stale = true
	l.refused++
}

// Describe sends the descriptions of all metrics.
func (l *ruleLoads) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{rulesDesc, revisionDesc, rulesLoadedDesc, rulesStaleDesc, rulesLoadsDesc} {
		ch <- d
	}
}

// Collect sends the state of the rules.
func (l *ruleLoads) Collect(ch chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ch <- gauge(rulesDesc, float64(l.rules))
	ch <- gauge(revisionDesc, float64(l.revision))
	if !l.loaded.IsZero() {
		ch <- gauge(rulesLoadedDesc, float64(l.loaded.UnixMilli())/1000)
	}
	ch <- gauge(rulesStaleDesc, boolGauge(l.stale))
	ch <- counter(rulesLoadsDesc, l.ok, "ok")
	ch <- counter(rulesLoadsDesc, l.unchanged, "unchanged")
	ch <- counter(rulesLoadsDesc, l.refused, "refused")
}

// collectEnforcement sends the metrics of rules that are not enforced.
func collectEnforcement(ch chan<- prometheus.Metric, e *Enforcement) {
	ch <- gauge(enforcementOffRulesDesc, float64(e.RulesOff))
	for _, scope := range []string{control.ScopeFleet, control.ScopeNode} {
		ch <- gauge(enforcementOffDesc, float64(e.Suspensions[scope]), scope)
	}
	ends := 0.0
	if !e.Ends.IsZero() {
		ends = float64(e.Ends.UnixMilli()) / 1000
	}
	ch <- gauge(enforcementOffEndDesc, ends)
}

// collectFollow sends the metrics of the connection to a rules service.
func collectFollow(ch chan<- prometheus.Metric, s *follow.Status) {
	ch <- gauge(clientsDesc, float64(s.Clients))
	ch <- gauge(overridesDesc, float64(s.Overrides))
	if !s.Checked.IsZero() {
		ch <- gauge(rulesAgeDesc, max(0, time.Since(s.Checked)).Seconds())
	}
	ch <- gauge(rulesLagDesc, s.Lag.Seconds())
	ch <- gauge(rulesFromDiskDesc, boolGauge(s.FromDisk))
	ch <- gauge(rulesServiceUpDesc, boolGauge(s.UnreachableReason == ""))
	ch <- gauge(rulesPushDesc, boolGauge(s.Push))
	ch <- counter(rulesFetchesDesc, s.Snapshots, "whole") // all rules, not a delta
	ch <- counter(rulesFetchesDesc, s.Deltas, "delta")
	ch <- counter(rulesFetchesDesc, s.Unchanged, "unchanged")
	ch <- counter(rulesFetchesDesc, s.Refusals, "refused")
	ch <- counter(rulesFetchesDesc, s.Failures, "failed")
}
