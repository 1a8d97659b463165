package node

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/telemetry"
)

// enforcement puts rules in force. A suspension turns off the enforcement of a rule: the rule becomes a shadow rule,
// which never denies, until the suspension expires. Suspensions come from the rules service and from the admin listener
// of this node. Those from the admin listener are lost when the process ends.
type enforcement struct {
	engine       *engine.Engine
	storesShared bool // nodes share a store
	metrics      *telemetry.Metrics
	log          *slog.Logger
	now          func() time.Time
	wake         chan struct{} // receives if the time of the next expiry may have changed

	mu               sync.Mutex
	loaded           *match.Set                    // the rules without suspensions; nil until apply is called
	fleetSuspensions []control.Suspension          // from the rules service; may have expired
	nodeSuspensions  map[string]control.Suspension // from the admin listener, by control.SuspensionID
	active           []control.Suspension          // all suspensions in force
	rulesOff         int                           // number of suspended rules
}

func newEnforcement(e *engine.Engine, shared bool, m *telemetry.Metrics, log *slog.Logger) *enforcement {
	return &enforcement{
		engine: e, storesShared: shared, metrics: m, log: log, now: time.Now, wake: make(chan struct{}, 1),
		nodeSuspensions: map[string]control.Suspension{},
	}
}

// apply puts a rule set in force. It returns the set in which suspended rules are shadow rules, which the engine uses.
func (e *enforcement) apply(set *match.Set) (*match.Set, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updateActive()
	effective, offCount := set.Shadowed(e.suspensionFilter())
	e.metrics.ExpectRules(effective, e.storesShared)
	if err := e.engine.SetRules(effective); err != nil {
		e.metrics.KeepRules(e.engine.Rules(), e.storesShared)
		return nil, err
	}
	e.loaded, e.rulesOff = set, offCount
	return effective, nil
}

// suspensionFilter returns a function that reports whether a rule is suspended.
func (e *enforcement) suspensionFilter() func(*rules.Rule) bool {
	ids := make(map[string]bool, len(e.active))
	for i := range e.active {
		ids[e.active[i].Rule] = true
	}
	return func(r *rules.Rule) bool { return ids[""] || ids[r.ID] }
}

// setFleetSuspensions sets the suspensions of the rules service.
func (e *enforcement) setFleetSuspensions(list []control.Suspension) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fleetSuspensions = list
	e.refresh()
}

// turnOff suspends a rule, or all rules if s.Rule is empty, on this node.
func (e *enforcement) turnOff(s control.Suspension) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nodeSuspensions[control.SuspensionID(s.Rule)] = s
	e.refresh()
}

// turnOn ends the suspension of a rule on this node. If rule is empty, it ends all suspensions of this node.
func (e *enforcement) turnOn(rule string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if rule == "" {
		clear(e.nodeSuspensions)
	} else {
		delete(e.nodeSuspensions, control.SuspensionID(rule))
	}
	e.refresh()
}

// hasRule reports whether a rule is in force.
func (e *enforcement) hasRule(id string) bool { return e.engine.Rules().Rule(id) != nil }

// refresh updates the suspensions in force and, if they have changed, the rules of the engine. The caller holds mu.
func (e *enforcement) refresh() {
	previous := e.active
	e.updateActive()
	if slices.Equal(previous, e.active) {
		return
	}
	e.logChanges(previous)
	select {
	case e.wake <- struct{}{}:
	default: // run is about to check the times anyway
	}
	if e.loaded == nil {
		return // apply was not called yet; it will use e.active
	}
	effective, offCount := e.loaded.Shadowed(e.suspensionFilter())
	e.metrics.ExpectRules(effective, e.storesShared)
	if err := e.engine.SetRules(effective); err != nil {
		e.log.Error("enforcement not changed", "err", err.Error())
	} else {
		e.rulesOff = offCount
	}
	e.metrics.KeepRules(e.engine.Rules(), e.storesShared)
}

// updateActive sets active to the suspensions that have not expired, and removes expired suspensions of this node.
func (e *enforcement) updateActive() {
	now := e.now()
	var list []control.Suspension
	add := func(s control.Suspension, scope string) {
		s.Scope = scope
		list = append(list, s)
	}
	for _, s := range e.fleetSuspensions {
		if s.Expires.After(now) {
			add(s, control.ScopeFleet)
		}
	}
	maps.DeleteFunc(e.nodeSuspensions, func(_ string, s control.Suspension) bool { return !s.Expires.After(now) })
	for _, s := range e.nodeSuspensions {
		add(s, control.ScopeNode)
	}
	slices.SortFunc(list, func(a, b control.Suspension) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Scope, b.Scope))
	})
	e.active = list
}

// logChanges logs the suspensions that have begun or ended since previous. Without a rules service, this is the only
// record of them.
func (e *enforcement) logChanges(previous []control.Suspension) {
	for _, s := range e.active {
		if !slices.Contains(previous, s) {
			e.log.Warn("enforcement off: requests over the limit are admitted and counted", "rule", ruleOrAll(s.Rule),
				"scope", s.Scope, "expires", s.Expires.Format(time.RFC3339), "by", s.By, "note", s.Note)
		}
	}
	for _, s := range previous {
		if !slices.ContainsFunc(e.active, func(a control.Suspension) bool { return a.Rule == s.Rule && a.Scope == s.Scope }) {
			e.log.Warn("enforcement on again", "rule", ruleOrAll(s.Rule), "scope", s.Scope)
		}
	}
}

func ruleOrAll(rule string) string { return cmp.Or(rule, "(all)") }

// run ends suspensions when they expire, until ctx ends.
func (e *enforcement) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-e.wake:
		}
		e.mu.Lock()
		e.refresh()
		wait := time.Hour
		for i := range e.active {
			wait = min(wait, e.active[i].Expires.Sub(e.now()))
		}
		e.mu.Unlock()
		timer.Reset(max(wait, time.Millisecond))
	}
}

// activeSuspensions returns the suspensions in force.
func (e *enforcement) activeSuspensions() []control.Suspension {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.active)
}

// ownSuspensions returns the suspensions in force that were created on this node, at most as many as a heartbeat may
// have.
func (e *enforcement) ownSuspensions() []control.Suspension {
	list := e.activeSuspensions()
	list = slices.DeleteFunc(list, func(s control.Suspension) bool { return s.Scope != control.ScopeNode })
	for i := range list {
		list[i].Scope = "" // the rules service sets it
	}
	return list[:min(len(list), control.MaxNodeSuspensions)]
}

// stats returns the statistics for the metrics.
func (e *enforcement) stats() telemetry.Enforcement {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := telemetry.Enforcement{RulesOff: e.rulesOff, Suspensions: map[string]int{}}
	for i := range e.active {
		f.Suspensions[e.active[i].Scope]++
		if e.active[i].Expires.After(f.Ends) {
			f.Ends = e.active[i].Expires
		}
	}
	return f
}
