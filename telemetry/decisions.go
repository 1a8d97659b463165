package telemetry

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A verdict is what a rule said of a request.
type verdict uint8

const (
	allowed verdict = iota
	delayed
	rejected
	dropped
	blocked
	shadowed
	verdicts // how many there are
)

var verdictWords = [verdicts]string{
	allowed: "allow", delayed: "delay", rejected: "reject", dropped: "drop", blocked: "block", shadowed: "shadow",
}

// Names in the place of a rule's id. No id has parentheses.
const (
	noRule   = "(none)"    // nothing limits the request
	goneRule = "(removed)" // the rule was removed while the request was decided
)

// A tally is what one rule has said.
type tally struct {
	rule, mode string
	over       atomic.Uint32 // what becomes of requests over its limit: a verdict
	counts     [verdicts]atomic.Uint64
	fallback   [verdicts]atomic.Uint64 // what on_failure said, as the store could not be asked
	degraded   [headgate.Local + 1]atomic.Uint64
}

// decisions counts what rules say. It is safe for concurrent use.
type decisions struct {
	table    atomic.Pointer[tallies]
	mu       sync.Mutex // of those who change the table
	requests [verdicts]atomic.Uint64
	none     tally
	gone     tally
}

// tallies are those of the rules in force.
type tallies struct {
	places []placed // by the rules' places in their Set
	byRule map[*rules.Rule]*tally
	byID   map[string]*tally
}

// placed is the tally of the rule that stands at a place, or did in a Set before.
type placed struct {
	rule  *rules.Rule
	tally *tally
}

func newDecisions() *decisions {
	d := &decisions{none: tally{rule: noRule, mode: noMode}, gone: tally{rule: goneRule, mode: noMode}}
	d.table.Store(&tallies{})
	return d
}

const (
	noMode       = "none"     // the mode of a rule that counts nothing
	degradedMode = "degraded" // that of decisions by on_failure, whatever the rule's own mode is
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

// overOf returns what becomes of requests that are over a rule's limit.
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

// setRules makes the tallies those of these rules. What a rule has counted stays if it has the same id and mode.
func (d *decisions) setRules(list []*rules.Rule, shared bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	made := &tallies{byRule: make(map[*rules.Rule]*tally, len(list)), byID: make(map[string]*tally, len(list))}
	made.add(d.table.Load(), list, shared)
	made.places = make([]placed, len(list))
	for i, r := range list {
		made.places[i] = placed{r, made.byRule[r]}
	}
	d.table.Store(made)
}

// expect adds tallies for these rules to those that there are.
func (d *decisions) expect(list []*rules.Rule, shared bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.table.Load()
	made := &tallies{places: old.places, byRule: make(map[*rules.Rule]*tally), byID: make(map[string]*tally)}
	maps.Copy(made.byRule, old.byRule)
	maps.Copy(made.byID, old.byID)
	made.add(old, list, shared)
	d.table.Store(made)
}

// add adds tallies for rules: those that there were before, or new ones.
func (t *tallies) add(old *tallies, list []*rules.Rule, shared bool) {
	for _, r := range list {
		mode := modeOf(r, shared)
		of := old.byID[r.ID]
		if of == nil || of.mode != mode {
			of = &tally{rule: r.ID, mode: mode}
		}
		of.over.Store(uint32(overOf(r)))
		t.byRule[r], t.byID[r.ID] = of, of
	}
}

// of returns the tally of a rule. A request that was begun before a change of rules brings a rule of the old set, which has
// the tally of its id.
func (d *decisions) of(r *rules.Rule) *tally {
	table := d.table.Load()
	if t := table.byRule[r]; t != nil {
		return t
	}
	if t := table.byID[r.ID]; t != nil {
		return t
	}
	return &d.gone
}

// at is of for a rule whose place in its Set is known, which is a matter of one look.
func (d *decisions) at(m *rules.Matched) *tally {
	if places := d.table.Load().places; m.Place < len(places) && places[m.Place].rule == m.Rule {
		return places[m.Place].tally
	}
	return d.of(m.Rule)
}

// Describe tells what Collect sends.
func (d *decisions) Describe(ch chan<- *prometheus.Desc) {
	ch <- requestsDesc
	ch <- decisionsDesc
	ch <- degradedDesc
}

// Collect sends what was counted. What a rule does not do is left out unless it has happened; what it does is there from the
// beginning, so that the first time shows as a rise.
func (d *decisions) Collect(ch chan<- prometheus.Metric) {
	for v := allowed; v <= dropped; v++ {
		ch <- counter(requestsDesc, d.requests[v].Load(), verdictWords[v])
	}
	d.none.collect(ch, false)
	d.gone.collect(ch, false)
	table := d.table.Load()
	for _, id := range slices.Sorted(maps.Keys(table.byID)) {
		table.byID[id].collect(ch, true)
	}
}

func (t *tally) collect(ch chan<- prometheus.Metric, inForce bool) {
	for v := range t.counts {
		n := t.counts[v].Load()
		if n > 0 || inForce && (verdict(v) == allowed || uint32(v) == t.over.Load()) {
			ch <- counter(decisionsDesc, n, t.rule, verdictWords[v], t.mode)
		}
	}
	for v := range t.fallback {
		if n := t.fallback[v].Load(); n > 0 {
			ch <- counter(decisionsDesc, n, t.rule, verdictWords[v], degradedMode)
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
