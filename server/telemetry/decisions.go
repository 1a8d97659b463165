package telemetry

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// A verdict is the result of a rule for a request.
type verdict uint8

const (
	allowed verdict = iota
	delayed
	rejected
	dropped
	blocked
	shadowed
	verdicts // the number of verdicts
)

var verdictNames = [verdicts]string{
	allowed: "allow", delayed: "delay", rejected: "reject", dropped: "drop", blocked: "block", shadowed: "shadow",
}

// Values of the rule label that are not ids. No id has parentheses.
const (
	noRuleName      = "(none)"    // no rule limits the request
	removedRuleName = "(removed)" // the rule was removed while the request was decided
)

// A ruleCounters has the counters of one rule.
type ruleCounters struct {
	rule, mode  string
	overVerdict atomic.Uint32 // the verdict for requests over the limit
	counts      [verdicts]atomic.Uint64
	fallback    [verdicts]atomic.Uint64 // by on_failure, because the store failed
	degraded    [headgate.Local + 1]atomic.Uint64
}

// decisions counts the verdicts of rules. It is safe for concurrent use.
type decisions struct {
	table       atomic.Pointer[counterTable]
	mu          sync.Mutex // held to change the table
	requests    [verdicts]atomic.Uint64
	noRule      ruleCounters
	removedRule ruleCounters
}

// counterTable are the counters of the rules in force.
type counterTable struct {
	places []ruleAtPlace // by the rules' places in their Set
	byRule map[*rules.Rule]*ruleCounters
	byID   map[string]*ruleCounters
}

// ruleAtPlace is the tally of the rule at a place of the current Set.
type ruleAtPlace struct {
	rule     *rules.Rule
	counters *ruleCounters
}

func newDecisions() *decisions {
	d := &decisions{noRule: ruleCounters{rule: noRuleName, mode: noMode}, removedRule: ruleCounters{
		rule: removedRuleName,
		mode: noMode,
	}}
	d.table.Store(&counterTable{})
	return d
}

const (
	noMode       = "none"     // the mode of a rule without limits
	degradedMode = "degraded" // the mode of decisions by on_failure, whatever the rule's own mode is
)

// modeOf returns how a rule's counters are shared.
func modeOf(r *rules.Rule, shared bool) string {
	switch {
	case len(r.Limits) == 0:
		return noMode
	case r.Consistency != rules.ByStore:
		return r.Consistency.String()
	case shared:
		return rules.Exact.String()
	default:
		return rules.Local.String()
	}
}

// overOf returns the verdict for requests over a rule's limit.
func overOf(r *rules.Rule) verdict {
	switch {
	case r.Block && r.OnLimit.Action == rules.Shadow:
		return shadowed
	case r.Block:
		return blocked
	case len(r.Limits) == 0:
		return allowed
	}
	switch r.OnLimit.Action {
	case rules.Delay:
		return delayed
	case rules.Drop:
		return dropped
	case rules.Shadow:
		return shadowed
	default:
		return rejected
	}
}

// setRules sets the rules in force. A rule with the same id and mode keeps its counters.
func (d *decisions) setRules(list []*rules.Rule, shared bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	made := &counterTable{
		byRule: make(map[*rules.Rule]*ruleCounters, len(list)),
		byID:   make(map[string]*ruleCounters, len(list)),
	}
	made.add(d.table.Load(), list, shared)
	made.places = make([]ruleAtPlace, len(list))
	for i, r := range list {
		made.places[i] = ruleAtPlace{r, made.byRule[r]}
	}
	d.table.Store(made)
}

// expect adds counters for rules that are about to come into force.
func (d *decisions) expect(list []*rules.Rule, shared bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.table.Load()
	made := &counterTable{
		places: old.places, byRule: make(map[*rules.Rule]*ruleCounters),
		byID: make(map[string]*ruleCounters),
	}
	maps.Copy(made.byRule, old.byRule)
	maps.Copy(made.byID, old.byID)
	made.add(old, list, shared)
	d.table.Store(made)
}

// add adds tallies for rules: existing ones, or new ones.
func (t *counterTable) add(old *counterTable, list []*rules.Rule, shared bool) {
	for _, r := range list {
		mode := modeOf(r, shared)
		of := old.byID[r.ID]
		if of == nil || of.mode != mode {
			of = &ruleCounters{rule: r.ID, mode: mode}
		}
		of.overVerdict.Store(uint32(overOf(r)))
		t.byRule[r], t.byID[r.ID] = of, of
	}
}

// countersOf returns the tally of a rule. A request that began before a change of rules has a rule of the old set,
// which has the tally of its id.
func (d *decisions) countersOf(r *rules.Rule) *ruleCounters {
	table := d.table.Load()
	if t := table.byRule[r]; t != nil {
		return t
	}
	if t := table.byID[r.ID]; t != nil {
		return t
	}
	return &d.removedRule
}

// countersAt is of for a rule whose place in its Set is known, which is faster.
func (d *decisions) countersAt(m *match.Result) *ruleCounters {
	if places := d.table.Load().places; m.Index < len(places) && places[m.Index].rule == m.Rule {
		return places[m.Index].counters
	}
	return d.countersOf(m.Rule)
}

// Describe sends the descriptions of all metrics.
func (d *decisions) Describe(ch chan<- *prometheus.Desc) {
	ch <- requestsDesc
	ch <- decisionsDesc
	ch <- degradedDesc
}

// Collect sends all counters. Verdicts that a rule cannot give are left out unless they have happened; the others are
// sent from the beginning, so that the first one shows as an increase.
func (d *decisions) Collect(ch chan<- prometheus.Metric) {
	for v := allowed; v <= dropped; v++ {
		ch <- counter(requestsDesc, d.requests[v].Load(), verdictNames[v])
	}
	d.noRule.collect(ch, false)
	d.removedRule.collect(ch, false)
	table := d.table.Load()
	for _, id := range slices.Sorted(maps.Keys(table.byID)) {
		table.byID[id].collect(ch, true)
	}
}

func (t *ruleCounters) collect(ch chan<- prometheus.Metric, inForce bool) {
	for v := range t.counts {
		n := t.counts[v].Load()
		if n > 0 || inForce && (verdict(v) == allowed || uint32(v) == t.overVerdict.Load()) {
			ch <- counter(decisionsDesc, n, t.rule, verdictNames[v], t.mode)
		}
	}
	for v := range t.fallback {
		if n := t.fallback[v].Load(); n > 0 {
			ch <- counter(decisionsDesc, n, t.rule, verdictNames[v], degradedMode)
		}
	}
	for p := range t.degraded {
		if n := t.degraded[p].Load(); n > 0 {
			ch <- counter(degradedDesc, n, t.rule, headgate.Policy(p).String())
		}
	}
}

func counter[T uint64 | int64](d *prometheus.Desc, n T, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func gauge(d *prometheus.Desc, n float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
}
