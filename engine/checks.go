package engine

import (
	"context"
	"slices"
	"unsafe"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// A checkBuilder turns rules into checks.
type checkBuilder struct {
	v           *Verdict
	ctx         context.Context
	subject     rules.Subject
	cost        int64 // Terms.Cost, if hasCost
	hasCost     bool
	noWait      bool
	skipSlots   bool // skip concurrency limits
	copyStrings bool // some checks are for stores that may keep their strings
}

// add adds the checks of a rule.
func (a *checkBuilder) add(matched int) {
	v, e := a.v, a.v.engine
	m := &v.matched[matched]
	r := m.Rule
	limits := len(m.Limits)
	if r.Penalty != nil && e.penalized(a.ctx, a.subject, v, m) {
		limits += len(r.Penalty.Limits)
	}
	at := e.stores.forRule(r)
	borrows := e.stores.list[at].borrowsKeys
	var owner span
	if !borrows {
		a.copyStrings = true
		owner.from = int32(len(v.keys))
		v.keys = m.AppendOwner(v.keys, a.subject)
		owner.to = int32(len(v.keys))
	}
	cost := r.Cost.Reserve(a.subject)
	slots := cost
	switch {
	case a.hasCost:
		if cost = a.cost; cost == 0 {
			slots = 0
		}
	case r.Cost.ResponseHeader != "":
		v.settles, v.readsResponse = true, true
	}
	queueFull := false
	maxWait := r.OnLimit.MaxWait
	if maxWait > 0 && cost > 0 && !a.noWait && int(e.waiting.Load()) >= e.config.MaxWaiting {
		queueFull, maxWait = true, 0
	}
	from := len(v.keys)
	v.keys = m.AppendKeyBase(v.keys, a.subject)
	base := len(v.keys) - from
	v.checks, v.infos = slices.Grow(v.checks, limits), slices.Grow(v.infos, limits)
	for j := range limits {
		l := &m.Limit(j).Limit
		units := cost
		if l.Algorithm == headgate.Concurrency {
			if a.skipSlots {
				continue
			}
			units = slots
			v.settles = v.settles || slots > 0
		}
		start := from
		if j > 0 {
			start = len(v.keys)
			v.keys = append(v.keys, v.keys[from:from+base]...)
		}
		v.keys = append(v.keys[:start+base], m.LimitName(j)...)
		n := len(v.checks)
		v.checks, v.infos = v.checks[:n+1], v.infos[:n+1]
		c := &v.checks[n] // field by field, which is faster than a copy
		c.Key = unsafe.String(unsafe.SliceData(v.keys[start:]), len(v.keys)-start)
		c.Limit, c.Cost = *l, units
		c.Owner, c.Split, c.Partition, c.OnFailure, c.Safe = "", r.Split, r.Partition, r.OnFailure, r.Safe
		info := &v.infos[n]
		*info = checkInfo{matched: int32(matched), limit: int32(j), store: at}
		if !borrows {
			info.key, info.owner = span{int32(start), int32(len(v.keys))}, owner
		}
		if r.OnLimit.Action == rules.Delay {
			c.Limit, info.extended = extend(*l, cost, maxWait)
			info.queueFull, v.mayDelay = queueFull, true
		}
	}
}

// addSimple is like add, but for simple rules (see isSimple) whose store is a Borrower. It adds the checks of all such
// rules whose keys are shared by clients, or of all whose keys are not shared.
func (v *Verdict) addSimple(s rules.Subject, at int8, shared bool) {
	keys, checks, list := v.keys, v.checks, v.infos
	for i := range v.matched {
		m := &v.matched[i]
		if m.Effect != match.Limited || m.Shared != shared {
			continue
		}
		units, _ := m.Simple()
		from := len(keys)
		keys = m.AppendKeyBase(keys, s)
		base := len(keys)
		for j := range m.Limits {
			l := &m.Limits[j].Limit
			v.settles = v.settles || l.Algorithm == headgate.Concurrency
			start := from
			if j > 0 {
				start = len(keys)
				keys = append(keys, keys[from:base]...)
			}
			keys = append(keys, m.LimitName(j)...)
			n := len(checks)
			if n == cap(checks) || n == cap(list) {
				checks, list = slices.Grow(checks, 1), slices.Grow(list, 1)
			}
			checks, list = checks[:n+1], list[:n+1]
			c, info := &checks[n], &list[n]
			c.Key = unsafe.String(&keys[start], len(keys)-start)
			// The previous request usually had the same limit here, and then most fields are set already. The limit of a
			// registered client may be stored at the same address as another client's.
			if info.simple != l || c.Cost != units || m.Client != "" {
				c.Limit, c.Cost = *l, units
				c.Owner, c.Split, c.Partition, c.OnFailure, c.Safe = "", 0, headgate.PartitionFull, headgate.Open, nil
				*info = checkInfo{simple: l}
			}
			info.matched, info.limit, info.store = int32(i), int32(j), at
		}
	}
	v.keys, v.checks, v.infos = keys, checks, list
}

// copyStrings copies the strings of checks for stores that may keep them. The strings of other checks stay parts of the
// key buffer.
func (v *Verdict) copyStrings() {
	allKeys := string(v.keys)
	for i := range v.checks {
		info, c := &v.infos[i], &v.checks[i]
		if !v.store(i).borrowsKeys {
			c.Key, c.Owner = allKeys[info.key.from:info.key.to], allKeys[info.owner.from:info.owner.to]
		}
	}
}
