package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/follow"
)

// ruleLoads counts reads of rules by result.
type ruleLoads struct {
	mu                     sync.Mutex
	count                  int
	revision               uint64
	loaded                 time.Time
	stale                  bool
	ok, unchanged, refused uint64
}

func (l *ruleLoads) accept(load *RuleLoad) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count, l.revision, l.loaded, l.stale = load.Set.Len(), load.Revision, load.Loaded, false
	l.ok++
}

func (l *ruleLoads) advance(revision uint64, loaded time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision, l.loaded, l.stale = revision, loaded, false
}

func (l *ruleLoads) confirm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stale = false
	l.unchanged++
}

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
	ch <- gauge(rulesDesc, float64(l.count))
	ch <- gauge(revisionDesc, float64(l.revision))
	if !l.loaded.IsZero() {
		ch <- gauge(rulesLoadedDesc, float64(l.loaded.UnixMilli())/1000)
	}
	ch <- gauge(rulesStaleDesc, boolGauge(l.stale))
	ch <- counter(rulesLoadsDesc, l.ok, "ok")
	ch <- counter(rulesLoadsDesc, l.unchanged, "unchanged")
	ch <- counter(rulesLoadsDesc, l.refused, "refused")
}

// collectEnforcement sends how many rules are not enforced.
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

// collectFollow sends how a node follows a rules service.
func collectFollow(ch chan<- prometheus.Metric, s *follow.Status) {
	ch <- gauge(clientsDesc, float64(s.Clients))
	ch <- gauge(overridesDesc, float64(s.Overrides))
	if !s.Checked.IsZero() {
		ch <- gauge(rulesAgeDesc, max(0, time.Since(s.Checked)).Seconds())
	}
	ch <- gauge(rulesLagDesc, s.Lag.Seconds())
	ch <- gauge(rulesFromDiskDesc, boolGauge(s.FromDisk))
	ch <- gauge(rulesServiceUpDesc, boolGauge(s.Unreachable == ""))
	ch <- gauge(rulesPushDesc, boolGauge(s.Push))
	ch <- counter(rulesFetchesDesc, s.Snapshots, "whole")
	ch <- counter(rulesFetchesDesc, s.Deltas, "delta")
	ch <- counter(rulesFetchesDesc, s.Unchanged, "unchanged")
	ch <- counter(rulesFetchesDesc, s.Refusals, "refused")
	ch <- counter(rulesFetchesDesc, s.Failures, "failed")
}
