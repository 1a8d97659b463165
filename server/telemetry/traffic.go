package telemetry

import (
	"iter"

	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/telemetry/traffic"
	"github.com/headgate/headgate/server/telemetry/traffic/decisionlog"
)

// Record makes a Recorder observe all verdicts and rules. It must be called before the first verdict.
func (m *Metrics) Record(r *traffic.Recorder) { m.recorder = r }

// LogDecisions makes a Log observe all verdicts. It must be called before the first verdict.
func (m *Metrics) LogDecisions(l *decisionlog.Log) { m.log = l }

// ShedDetail makes Observe skip the counts of clients and the log of decisions while sheds returns true, to save work
// during an overload. It must be called before the first verdict.
func (m *Metrics) ShedDetail(sheds func() bool) { m.shedsDetail = sheds }

func (m *Metrics) recordRules(set *match.Set) {
	if m.recorder != nil {
		m.recorder.SetRules(set.Rules())
	}
}

// Traffic returns the counters of all requests and of each rule, for a traffic.Recorder.
func (m *Metrics) Traffic() iter.Seq[traffic.Row] {
	return func(yield func(traffic.Row) bool) {
		d := m.decisions
		total := traffic.Row{Rule: traffic.Total}
		total.Delayed = d.requests[delayed].Load()
		total.Denied = d.requests[rejected].Load() + d.requests[dropped].Load()
		total.Requests = d.requests[allowed].Load() + total.Delayed + total.Denied
		total.ShadowDenied, total.Degraded = d.shadowed.Load(), d.degraded.Load()
		if !yield(total) || !yield(d.noRule.traffic()) {
			return
		}
		for _, c := range d.table.Load().byID {
			if !yield(c.traffic()) {
				return
			}
		}
	}
}

func (c *ruleCounters) traffic() traffic.Row {
	var n [numVerdicts]uint64
	for v := range n {
		n[v] = c.counts[v].Load() + c.fallback[v].Load()
	}
	row := traffic.Row{Rule: c.rule}
	row.Delayed, row.ShadowDenied = n[delayed], n[shadowed]
	row.Denied = n[rejected] + n[dropped] + n[blocked]
	row.Requests = n[allowed] + n[shadowed] + row.Delayed + row.Denied
	for p := range c.degraded {
		row.Degraded += c.degraded[p].Load()
	}
	return row
}
