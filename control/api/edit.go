package api

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules"
)

// An edit is what is to become of one object.
type edit struct {
	kind control.Kind
	id   string
	base int64
	body []byte // nil deletes it
	// One of these is what body says.
	rule     *rules.Rule
	client   *rules.Client
	override *control.Override
	// path is where it stands in what was sent, line in which line.
	path string
	line int
}

// maxOverrides is how many a namespace may have.
const maxOverrides = 10_000

// try holds edits against the space and makes it what they say. Undo takes that back. The error is a *problem that says
// everything that is wrong; then nothing is changed.
func (sp *space) try(edits []edit) (undo func(), err error) {
	var wrong findings
	rulesBefore, setBefore := sp.rules, sp.set
	overridesBefore := sp.overrides
	var dropped []rules.Client
	var added []string
	undo = func() {
		sp.rules, sp.set, sp.overrides = rulesBefore, setBefore, overridesBefore
		for _, id := range added {
			sp.dropClient(id)
		}
		for _, c := range dropped {
			if err := sp.clients.Add(c); err != nil { // it was there before, so that this is a fault of ours
				sp.loaded = false
			}
		}
	}
	needs := sp.tryRules(edits, &wrong)
	if len(wrong.list) == 0 {
		for i := range edits {
			if edits[i].kind == control.KindClient {
				if c, ok := sp.dropClient(edits[i].id); ok {
					dropped = append(dropped, c)
				}
			}
		}
		for i := range edits {
			if e := &edits[i]; e.client != nil {
				if sp.tryClient(e, &wrong) {
					added = append(added, e.id)
				}
			}
		}
		if needs {
			sp.checkClients(setBefore, &wrong)
		}
		sp.tryOverrides(edits, needs, &wrong)
	}
	if len(wrong.list) > 0 {
		undo()
		return nil, invalid(wrong.list, wrong.more)
	}
	return undo, nil
}

// findings are what is wrong.
type findings struct {
	list []fieldError
	more int
}

func (f *findings) add(e fieldError) {
	if len(f.list) == rules.MaxProblems {
		f.more++
		return
	}
	f.list = append(f.list, e)
}

// addAll adds what rules say is wrong with an edit. Field turns their path below the client that they speak of into that of the edit.
func (f *findings) addAll(err error, e *edit, field func(string) string) {
	var wrong *rules.Error
	if !errors.As(err, &wrong) {
		f.add(fieldError{Path: e.path, Value: err.Error(), Want: "something else", Line: e.line})
		return
	}
	for _, one := range ruleErrors(wrong) {
		path := strings.TrimPrefix(strings.TrimPrefix(one.Path, "client"), ".")
		one.Path, one.Line = join(e.path, field(path)), e.line
		f.add(one)
	}
	f.more += wrong.More
}

// asItIs is the path of a client's own field.
func asItIs(path string) string { return path }

// tryRules compiles the rules as they will be, and reports whether they will ask something else of clients.
func (sp *space) tryRules(edits []edit, wrong *findings) (needs bool) {
	if !slices.ContainsFunc(edits, func(e edit) bool { return e.kind == control.KindRule }) {
		return false
	}
	next := maps.Clone(sp.rules)
	paths := map[string]string{}
	needs = sp.clients.Len() == 0 && len(sp.overrides) == 0 // then nothing is held against them
	for i := range edits {
		e := &edits[i]
		if e.kind != control.KindRule {
			continue
		}
		before, was := next[e.id]
		if e.rule == nil {
			delete(next, e.id)
			needs = needs || was
			continue
		}
		next[e.id] = heldRule{*e.rule, e.body}
		paths["rules/"+e.id] = e.path
		needs = needs || !was || needOf(before.rule) != needOf(*e.rule)
	}
	set, err := compile(next)
	var invalid *rules.Error
	switch {
	case errors.As(err, &invalid):
		for _, one := range ruleErrors(invalid) {
			for of, path := range paths {
				if rest, ok := strings.CutPrefix(one.Path, of+"."); ok {
					one.Path = join(path, rest)
				}
			}
			wrong.add(one)
		}
		wrong.more += invalid.More
		return needs
	case err != nil:
		wrong.add(fieldError{Value: err.Error(), Want: "rules that compile"})
		return needs
	}
	sp.rules, sp.set = next, set
	return needs
}

// needOf returns what a rule asks of the limits of clients, as a text to compare.
func needOf(r rules.Rule) string {
	asks := rules.Rule{
		ID: r.ID, Key: r.Key, Fallback: r.Fallback, Unlimited: r.Unlimited, Block: r.Block, Cost: r.Cost, CountRejected: r.CountRejected,
		Consistency: r.Consistency, Scope: r.Scope, Split: r.Split, OnLimit: r.OnLimit, Safe: r.Safe,
	}
	return string(control.RuleBody(asks))
}

// tryClient registers a client, and reports whether it could.
func (sp *space) tryClient(e *edit, wrong *findings) bool {
	if err := sp.set.Check(*e.client); err != nil {
		wrong.addAll(err, e, asItIs)
		return false
	}
	if err := sp.clients.Add(*e.client); err != nil {
		wrong.addAll(err, e, asItIs)
		return false
	}
	return true
}

// checkClients says which clients have limits that they could not have under the rules. They could under those of before.
func (sp *space) checkClients(before *rules.Set, wrong *findings) {
	list, more := sp.set.Misfits(sp.clients, before)
	for i := range list {
		m := &list[i]
		for _, one := range ruleErrors(&rules.Error{Problems: m.Problems}) {
			one.Value = strconv.Itoa(m.Count) + " with " + strings.Join(limitsOf(&m.Like), ", ") + " (" + one.Path + "): " + one.Value
			one.Path = "clients"
			wrong.add(one)
		}
	}
	wrong.more += more
}

// limitsOf returns the limits of a client as they are written.
func limitsOf(c *rules.Client) []string {
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

// tryOverrides takes overrides, and says which cannot be used. Those of a rule that is gone do nothing until it is back.
func (sp *space) tryOverrides(edits []edit, needs bool, wrong *findings) {
	next, cloned := sp.overrides, false
	for i := range edits {
		e := &edits[i]
		if e.kind != control.KindOverride {
			continue
		}
		if !cloned {
			next, cloned = maps.Clone(next), true
		}
		if e.override == nil {
			delete(next, e.id)
			continue
		}
		next[e.id] = *e.override
		if err := sp.checkOverride(e.override); err != nil {
			wrong.addAll(err, e, control.OverridePath)
		}
	}
	if len(next) > maxOverrides && len(next) > len(sp.overrides) {
		wrong.add(fieldError{Path: "overrides", Value: strconv.Itoa(len(next)), Want: "at most " + strconv.Itoa(maxOverrides) + " in a namespace; what lasts is a client's limit"})
	}
	sp.overrides = next
	if !needs {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(next)) {
		o := next[id]
		if o.Rule != "" && sp.set.Rule(o.Rule) == nil {
			continue
		}
		if err := sp.checkOverride(&o); err != nil {
			wrong.addAll(err, &edit{path: "overrides/" + id}, control.OverridePath)
		}
	}
}

func (sp *space) checkOverride(o *control.Override) error {
	c, err := o.Registered()
	if err != nil {
		return err
	}
	return sp.set.Check(c)
}
