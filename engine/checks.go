package engine

import (
	"context"
	"slices"
	"time"
	"unsafe"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// A checkBuilder appends the checks of rules to v.checks, and a checkInfo for each of them to v.infos.
type checkBuilder struct {
	v               *Verdict
	ctx             context.Context
	subject         rules.Subject
	cost            int64 // DecideOptions.Cost
	hasCost         bool  // DecideOptions.HasCost
	noWait          bool  // DecideOptions.NoWait
	skipSlots       bool  // skip concurrency limits
	mustCopyStrings bool  // set by add if a store may retain Key and Owner: call Verdict.copyStrings
}

// add adds the checks of the rule v.matched[ruleIndex].
func (b *checkBuilder) add(ruleIndex int) {
	v, e := b.v, b.v.engine
	m := &v.matched[ruleIndex]
	r := m.Rule
	limitCount := len(m.Limits)
	if r.Penalty != nil && e.penalized(b.ctx, b.subject, v, m) {
		limitCount += len(r.Penalty.Limits) // m.Limit(i) returns them after m.Limits
	}
	store := e.stores.forRule(r)
	borrows := e.stores.list[store].borrowsKeys
	var owner span
	if !borrows {
		b.mustCopyStrings = true
		owner.from = int32(len(v.keys))
		v.keys = m.AppendOwner(v.keys, b.subject)
		owner.to = int32(len(v.keys))
	}
	cost, slots := b.units(r)
	maxWait, queueFull := b.maxWait(r, cost)
	// A key consists of a base, which is the same for all limits of the rule, and the name of the limit. The keys are
	// appended to v.keys.
	from := len(v.keys)
	v.keys = m.AppendKeyBase(v.keys, b.subject)
	baseLen := len(v.keys) - from
	v.checks, v.infos = slices.Grow(v.checks, limitCount), slices.Grow(v.infos, limitCount)
	for j := range limitCount {
		l := &m.Limit(j).Limit
		units := cost
		if l.Algorithm == headgate.Concurrency {
			if b.skipSlots {
				continue
			}
			units = slots
			v.needsSettle = v.needsSettle || slots > 0
		}
		start := from
		if j > 0 {
			start = len(v.keys)
			v.keys = append(v.keys, v.keys[from:from+baseLen]...)
		}
		v.keys = append(v.keys, m.LimitName(j)...)
		n := len(v.checks)
		v.checks, v.infos = v.checks[:n+1], v.infos[:n+1]
		c := &v.checks[n] // field by field, which is faster than a copy
		// The key points into v.keys. It stays valid if append moves v.keys: the old array is not written again.
		c.Key = unsafe.String(unsafe.SliceData(v.keys[start:]), len(v.keys)-start)
		c.Limit, c.Cost = *l, units
		c.Owner, c.Split, c.Partition, c.OnFailure, c.Safe = "", r.Split, r.Partition, r.OnFailure, r.Safe
		info := &v.infos[n]
		*info = checkInfo{matched: int32(ruleIndex), limit: int32(j), base: int32(baseLen), store: store}
		if !borrows {
			info.key, info.owner = span{int32(start), int32(len(v.keys))}, owner
		}
		if r.OnLimit.Action == rules.Delay {
			c.Limit, info.extraCapacity = extend(*l, cost, maxWait)
			info.queueFull, v.mayDelay = queueFull, true
		}
	}
}

// maxWait returns the longest delay of the request for a rule. It returns 0 and true if too many requests are delayed
// already.
func (b *checkBuilder) maxWait(r *rules.Rule, cost int64) (maxWait time.Duration, queueFull bool) {
	e := b.v.engine
	maxWait = r.OnLimit.MaxWait
	if maxWait > 0 && cost > 0 && !b.noWait && int(e.waiting.Load()) >= e.config.MaxWaiting {
		return 0, true
	}
	return maxWait, false
}

// units returns how many units the request takes from the limits of a rule, and how many slots from its concurrency
// limits. The caller's cost does not change the number of slots.
func (b *checkBuilder) units(r *rules.Rule) (cost, slots int64) {
	cost = r.Cost.Initial(b.subject)
	slots = cost
	switch {
	case b.hasCost:
		cost = b.cost
		if cost == 0 { // a peek takes no slots either
			slots = 0
		}
	case r.Cost.ResponseHeader != "":
		b.v.needsSettle, b.v.readsResponse = true, true
	}
	return cost, slots
}

// addSimple is like add, but for all rules at once. All rules with limits must be simple, as isSimple reports, and
// their store must be a Borrower. If shared is set, addSimple adds the rules with keys that clients share, otherwise
// the other rules.
func (v *Verdict) addSimple(s rules.Subject, store int8, shared bool) {
	keys, checks, infos := v.keys, v.checks, v.infos
	for i := range v.matched {
		m := &v.matched[i]
		if m.Effect != match.Limited || m.Shared != shared {
			continue
		}
		units, _ := m.Simple()
		from := len(keys)
		keys = m.AppendKeyBase(keys, s)
		baseEnd := len(keys)
		for j := range m.Limits {
			l := &m.Limits[j].Limit
			v.needsSettle = v.needsSettle || l.Algorithm == headgate.Concurrency
			start := from
			if j > 0 {
				start = len(keys)
				keys = append(keys, keys[from:baseEnd]...)
			}
			keys = append(keys, m.LimitName(j)...)
			n := len(checks)
			if n == cap(checks) || n == cap(infos) {
				checks, infos = slices.Grow(checks, 1), slices.Grow(infos, 1)
			}
			checks, infos = checks[:n+1], infos[:n+1]
			c, info := &checks[n], &infos[n]
			c.Key = unsafe.String(&keys[start], len(keys)-start) // safe for the same reason as in add
			// If the previous request had the same limit here, as usual, most fields are set already. The address of the
			// limit shows this, except for a registered client's limit: its memory may have held another client's limit.
			if info.simple != l || c.Cost != units || m.Client != "" {
				c.Limit, c.Cost = *l, units
				c.Owner, c.Split, c.Partition, c.OnFailure, c.Safe = "", 0, headgate.PartitionFull, headgate.Open, nil
				*info = checkInfo{simple: l}
			}
			info.matched, info.limit, info.base, info.store = int32(i), int32(j), int32(baseEnd-from), store
		}
	}
	v.keys, v.checks, v.infos = keys, checks, infos
}

// copyStrings copies the strings of the checks whose stores may retain them. The strings of other checks still point
// into v.keys.
func (v *Verdict) copyStrings() {
	allKeys := string(v.keys)
	for i := range v.checks {
		info, c := &v.infos[i], &v.checks[i]
		if !v.store(i).borrowsKeys {
			c.Key, c.Owner = allKeys[info.key.from:info.key.to], allKeys[info.owner.from:info.owner.to]
		}
	}
}
