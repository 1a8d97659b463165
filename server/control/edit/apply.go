package edit

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/control"
)

// maxOverrides is the maximum number of overrides in a namespace.
const maxOverrides = 10_000

// A savepoint is the state of a namespace before edits.
type savepoint struct {
	ns        *namespace
	rules     map[string]storedRule
	set       *match.Set
	overrides map[string]control.Override
	removed   []rules.Client // clients that the edits removed
	added     []string       // IDs of the clients that the edits added
}

// restore undoes the edits.
func (s *savepoint) restore() {
	s.ns.rules, s.ns.set, s.ns.overrides = s.rules, s.set, s.overrides
	for _, id := range s.added {
		s.ns.removeClient(id)
	}
	for _, c := range s.removed {
		if err := s.ns.clients.Add(c); err != nil { // cannot happen, since it was there before
			s.ns.loaded = false
		}
	}
}

// apply applies edits in memory. If they would make the namespace invalid, apply changes nothing and returns a
// *source.Error with all problems.
func (ns *namespace) apply(edits []Edit) (*savepoint, error) {
	before := &savepoint{ns: ns, rules: ns.rules, set: ns.set, overrides: ns.overrides}
	var problems Problems
	recheck := ns.applyRules(edits, &problems)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	for i := range edits {
		if edits[i].Kind == control.KindClient {
			if c, ok := ns.removeClient(edits[i].ID); ok {
				before.removed = append(before.removed, c)
			}
		}
	}
	for i := range edits {
		if e := &edits[i]; e.client != nil && ns.addClient(e, &problems) {
			before.added = append(before.added, e.ID)
		}
	}
	if recheck {
		ns.checkClients(before.set, &problems)
	}
	ns.applyOverrides(edits, &problems)
	if recheck {
		ns.checkOverrides(&problems)
	}
	if err := problems.Err(); err != nil {
		before.restore()
		return nil, err
	}
	return before, nil
}

// applyRules compiles the rules after the edits. It reports whether clients and overrides must be checked again,
// because rules have new requirements for their limits.
func (ns *namespace) applyRules(edits []Edit, problems *Problems) (recheck bool) {
	if !hasKind(edits, control.KindRule) {
		return false
	}
	next := maps.Clone(ns.rules)
	paths := map[string]string{} // from a rule's path in the namespace to its path in the request
	// Without clients and overrides, a recheck costs nothing, and requirements need not be compared.
	recheck = ns.clients.Len() == 0 && len(ns.overrides) == 0
	for i := range edits {
		e := &edits[i]
		if e.Kind != control.KindRule {
			continue
		}
		before, existed := next[e.ID]
		if e.rule == nil {
			delete(next, e.ID)
			recheck = recheck || existed
			continue
		}
		next[e.ID] = storedRule{*e.rule, e.Body}
		paths["rules/"+e.ID] = e.Path
		recheck = recheck || !existed || requirements(before.rule) != requirements(*e.rule)
	}
	set, err := compile(next)
	var invalid *rules.Error
	switch {
	case errors.As(err, &invalid):
		for _, problem := range RuleProblems(invalid) {
			for rule, path := range paths {
				if field, ok := strings.CutPrefix(problem.Path, rule+"."); ok {
					problem.Path = JoinPath(path, field)
				}
			}
			problems.Add(problem)
		}
		problems.More += invalid.More
	case err != nil:
		problems.Add(source.Problem{Value: err.Error(), Want: "rules that compile"})
	default:
		ns.rules, ns.set = next, set
	}
	return recheck
}

func hasKind(edits []Edit, kind control.Kind) bool {
	return slices.ContainsFunc(edits, func(e Edit) bool { return e.Kind == kind })
}

// requirements returns the fields of a rule that decide which limits its clients may have, as text to compare.
func requirements(r rules.Rule) string {
	return string(control.RuleBody(rules.Rule{
		ID: r.ID, Key: r.Key, Fallback: r.Fallback, Unlimited: r.Unlimited, Block: r.Block, Cost: r.Cost,
		CountRejected: r.CountRejected, Consistency: r.Consistency, Scope: r.Scope, Split: r.Split, OnLimit: r.OnLimit,
		Safe: r.Safe,
	}))
}

// addClient registers a client, and reports whether it is valid.
func (ns *namespace) addClient(e *Edit, problems *Problems) bool {
	err := ns.set.Check(*e.client)
	if err == nil {
		err = ns.clients.Add(*e.client)
	}
	if err != nil {
		problems.addRules(err, e, func(path string) string { return path })
	}
	return err == nil
}

// checkClients adds the problems of clients whose limits were valid under the previous rules and now are not.
func (ns *namespace) checkClients(before *match.Set, problems *Problems) {
	list, unlisted := ns.set.Conflicts(ns.clients, before)
	for i := range list {
		m := &list[i]
		clients := strconv.Itoa(m.Count) + " with " + strings.Join(limitTexts(&m.Example), ", ")
		for _, problem := range RuleProblems(&rules.Error{Problems: m.Problems}) {
			problem.Value = clients + " (" + problem.Path + "): " + problem.Value
			problem.Path = "clients"
			problems.Add(problem)
		}
	}
	problems.More += unlisted
}

// limitTexts returns the limits of a client as text.
func limitTexts(c *rules.Client) []string {
	var list []string
	for _, l := range c.Limits {
		list = append(list, l.String())
	}
	for _, r := range c.Rules {
		for _, l := range r.Limits {
			list = append(list, r.ID+": "+l.String())
		}
	}
	return list
}

// applyOverrides makes the edits of overrides, and checks the new ones.
func (ns *namespace) applyOverrides(edits []Edit, problems *Problems) {
	if !hasKind(edits, control.KindOverride) {
		return
	}
	next := maps.Clone(ns.overrides)
	for i := range edits {
		e := &edits[i]
		switch {
		case e.Kind != control.KindOverride:
		case e.override == nil:
			delete(next, e.ID)
		default:
			next[e.ID] = *e.override
			ns.checkOverride(e.override, e, problems)
		}
	}
	if len(next) > maxOverrides && len(next) > len(ns.overrides) {
		problems.Add(source.Problem{
			Path: "overrides", Value: strconv.Itoa(len(next)),
			Want: "at most " + strconv.Itoa(maxOverrides) + " in a namespace; permanent limits belong to clients",
		})
	}
	ns.overrides = next
}

// checkOverrides checks all overrides under the current rules. An override of a deleted rule has no effect, and is
// valid.
func (ns *namespace) checkOverrides(problems *Problems) {
	for _, id := range slices.Sorted(maps.Keys(ns.overrides)) {
		o := ns.overrides[id]
		if o.Rule == "" || ns.set.Rule(o.Rule) != nil {
			ns.checkOverride(&o, &Edit{Path: "overrides/" + id}, problems)
		}
	}
}

func (ns *namespace) checkOverride(o *control.Override, e *Edit, problems *Problems) {
	c, err := o.AsClient()
	if err == nil {
		err = ns.set.Check(c)
	}
	if err != nil {
		problems.addRules(err, e, control.OverridePath)
	}
}
