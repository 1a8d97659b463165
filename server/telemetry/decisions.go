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
	numVerdicts
)

var verdictNames = [numVerdicts]string{
	allowed: "allow", delayed: "delay", rejected: "reject", dropped: "drop", blocked: "block", shadowed: "shadow",
}

// Values of the label rule that are not IDs. IDs have no parentheses.
const (
	noRuleName      = "(none)"    // no rule limits the request
	removedRuleName = "(removed)" // the rule was removed while the request was decided
)

// ruleCounters are the counters of one rule.
type ruleCounters struct {
	rule, mode  string
	overVerdict atomic.Uint32 // the verdict for requests over the limit
	counts      [numVerdicts]atomic.Uint64
	fallback    [numVerdicts]atomic.Uint64      // verdicts of the on_failure policy, because the store failed
	degraded    [numFallbackKinds]atomic.Uint64 // the same requests, by policy
}

// Kinds of decisions without the store are a headgate.Policy, or shadowFallback for shadow rules, which limit nothing.
const (
	shadowFallback   = headgate.Local + 1
	numFallbackKinds = shadowFallback + 1
)

// decisions counts the verdicts of rules. It is safe for concurrent use.
type decisions struct {
	table       atomic.Pointer[counterTable]
	mu          sync.Mutex // held to change the table
	requests    [numVerdicts]atomic.Uint64
	degraded    atomic.Uint64 // requests that a fallback decided
	unlimited   atomic.Uint64 // requests that a rule with on_failure: open has admitted because the store failed
	shadowed    atomic.Uint64 // requests that a shadow rule would have denied
	noRule      ruleCounters
	removedRule ruleCounters
}

// A counterTable has the counters of the rules in force.
type counterTable struct {
	indexed []indexedRule // in the order of the rules in their Set
	byRule  map[*rules.Rule]*ruleCounters
	byID    map[string]*ruleCounters
}

// An indexedRule is a rule of the current Set and its counters.
type indexedRule struct {
	rule     *rules.Rule
	counters *ruleCounters
}

func newDecisions() *decisions {
	d := &decisions{
		noRule:      ruleCounters{rule: noRuleName, mode: noMode},
		removedRule: ruleCounters{rule: removedRuleName, mode: noMode},
	}
	d.table.Store(&counterTable{byRule: map[*rules.Rule]*ruleCounters{}, byID: map[string]*ruleCounters{}})
	return d
}

const (
	noMode       = "none"     // the mode of a rule without limits
	degradedMode = "degraded" // the mode of decisions by on_failure policies
)

// modeOf returns the consistency with which nodes share the counters of a rule, for the label mode.
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

// overLimitVerdict returns the verdict for requests over a rule's limit.
func overLimitVerdict(r *rules.Rule) verdict {
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
	table := &counterTable{
		byRule: make(map[*rules.Rule]*ruleCounters, len(list)),
		byID:   make(map[string]*ruleCounters, len(list)),
	}
	table.add(d.table.Load(), list, shared)
	table.indexed = make([]indexedRule, len(list))
	for i, r := range list {
		table.indexed[i] = indexedRule{r, table.byRule[r]}
	}
	d.table.Store(table)
}

// expect adds counters for rules that are about to come into force.
func (d *decisions) expect(list []*rules.Rule, shared bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.table.Load()
	table := &counterTable{indexed: old.indexed, byRule: maps.Clone(old.byRule), byID: maps.Clone(old.byID)}
	table.add(old, list, shared)
	d.table.Store(table)
}

// add adds counters for rules. A rule whose id and mode are in old keeps its counters.
func (t *counterTable) add(old *counterTable, list []*rules.Rule, shared bool) {
	for _, r := range list {
		mode := modeOf(r, shared)
		counters := old.byID[r.ID]
		if counters == nil || counters.mode != mode {
			counters = &ruleCounters{rule: r.ID, mode: mode}
		}
		counters.overVerdict.Store(uint32(overLimitVerdict(r)))
		t.byRule[r], t.byID[r.ID] = counters, counters
	}
}

// countersOf returns the counters of a rule. A request that began before a change of the rules has a rule of the old
// Set, for which countersOf returns the counters of the rule with the same ID.
func (d *decisions) countersOf(r *rules.Rule) *ruleCounters {
	table := d.table.Load()
	if c := table.byRule[r]; c != nil {
		return c
	}
	if c := table.byID[r.ID]; c != nil {
		return c
	}
	return &d.removedRule
}

// countersAt returns the counters of a matched rule. It needs no map lookup if the rule is of the current Set.
func (d *decisions) countersAt(m *match.Result) *ruleCounters {
	if indexed := d.table.Load().indexed; m.Index < len(indexed) && indexed[m.Index].rule == m.Rule {
		return indexed[m.Index].counters
	}
	return d.countersOf(m.Rule)
}

// Describe sends the descriptions of all metrics.
func (d *decisions) Describe(ch chan<- *prometheus.Desc) {
	ch <- requestsDesc
	ch <- decisionsDesc
	ch <- degradedDesc
}

// Collect sends all counters. It sends the main verdicts of a rule even while their counters are 0, so that Prometheus
// sees the first one as an increase.
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

func (c *ruleCounters) collect(ch chan<- prometheus.Metric, inForce bool) {
	for v := range c.counts {
		n := c.counts[v].Load()
		if n > 0 || inForce && (verdict(v) == allowed || uint32(v) == c.overVerdict.Load()) {
			ch <- counter(decisionsDesc, n, c.rule, verdictNames[v], c.mode)
		}
	}
	for v := range c.fallback {
		if n := c.fallback[v].Load(); n > 0 {
			ch <- counter(decisionsDesc, n, c.rule, verdictNames[v], degradedMode)
		}
	}
	for p := range c.degraded {
		if n := c.degraded[p].Load(); n > 0 {
			ch <- counter(degradedDesc, n, c.rule, fallbackName(headgate.Policy(p)))
		}
	}
}

// fallbackName returns the value of the label policy.
func fallbackName(p headgate.Policy) string {
	if p == shadowFallback {
		return "shadow"
	}
	return p.String()
}
