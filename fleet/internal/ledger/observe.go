package ledger

import (
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet/internal/quota"
)

// Observe notes what another limiter decided on a check, and that this node consumed it.
func (l *Ledger) Observe(c *headgate.Check, k *ObservedKey, d *headgate.Decision) {
	if k.Plan == nil {
		return
	}
	p, now := k.Plan, l.now()
	sh := l.shardOf(&k.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r, err := l.observedRecord(sh, c, k, now)
	if err != nil {
		return // it is counted by the region, and not told; Stats.Full says so
	}
	l.arrive(r, p, p.Offset(c.Key), now)
	l.touch(sh, r, now)
	r.region.level, r.region.at = p.Capacity()-d.Remaining, r.at(now)
	if units := d.Receipt.Units; units > 0 {
		own := l.charge(r, units, now)
		r.emptied(&own, now)
		l.consumed(sh, r, units, now)
		r.denied = false
		return
	}
	r.denied = !d.Allowed
	l.asked(sh, r)
}

// A ObservedKey is what a check that another limiter decides on is counted by, if others are told of it.
type ObservedKey struct {
	Plan *quota.Plan // nil if they are not
	Key  Key
}

// observedRecord returns the record of a check, with what is needed to charge it later. The shard is locked.
func (l *Ledger) observedRecord(sh *shard, c *headgate.Check, k *ObservedKey, now moment) (*record, error) {
	r := sh.records[k.Key]
	if r == nil {
		var err error
		if r, err = l.add(sh, k.Key, k.Plan, k.Plan.Offset(c.Key), now); err != nil {
			return nil, err
		}
	}
	if r.region == nil {
		r.region = &regional{}
	}
	if r.region.check.Limit != c.Limit {
		r.region.check = headgate.Check{
			Key: strings.Clone(c.Key), Limit: c.Limit, Owner: strings.Clone(c.Owner), Split: c.Split, OnFailure: c.OnFailure, Safe: c.Safe,
		}
	}
	return r, nil
}

// BeforeTake notes that another limiter is about to decide on a check. It returns what has to be waited for before, or nil.
func (l *Ledger) BeforeTake(c *headgate.Check, k *ObservedKey) *Lookup {
	if *k = l.ObservedKey(c); k.Plan == nil {
		return nil
	}
	now := l.now()
	sh := l.shardOf(&k.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.records[k.Key]
	isNew := r == nil
	if isNew {
		var err error
		if r, err = l.observedRecord(sh, c, k, now); err != nil {
			return nil // it is not learned
		}
	}
	switch {
	case isNew && c.Cost > 0: // this is the first decision
	case !r.unlearned && r.at(now)-r.askedAt <= l.learning.cold:
	case r.denied: // consumption elsewhere does not change that
	default:
		return l.see(sh, r, &ask{patient: true}, now)
	}
	return nil
}

// ObservedKey returns by what a check that others are told of is counted.
func (l *Ledger) ObservedKey(c *headgate.Check) ObservedKey {
	p, err := l.plans.Get(&c.Limit, quota.NewPlan)
	if err != nil || !p.Shared {
		return ObservedKey{}
	}
	return ObservedKey{Plan: p, Key: l.hash(c.Key, p.Kind)}
}

// SetLevel notes what another limiter said of a key when it was charged.
func (l *Ledger) SetLevel(key Key, d *headgate.Decision) {
	now := l.now()
	sh := l.shardOf(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r := sh.records[key]; r != nil && r.region != nil {
		r.region.level, r.region.at = r.plan.Capacity()-d.Remaining, r.at(now)
	}
}

// Refund notes that units were given back to another limiter.
func (l *Ledger) Refund(c *headgate.Check) {
	k := l.ObservedKey(c)
	if k.Plan == nil {
		return
	}
	now := l.now()
	sh := l.shardOf(&k.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r := sh.records[k.Key]; r != nil {
		l.roll(r, now)
		l.give(r, r.plan, c.Cost, headgate.Receipt{At: r.at(now), Units: c.Cost}, now)
	}
}

// CheckOf returns a check that was witnessed.
func (l *Ledger) CheckOf(key Key) (headgate.Check, bool) {
	sh := l.shardOf(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r := sh.records[key]; r != nil && r.region != nil {
		return r.region.check, true
	}
	return headgate.Check{}, false
}

// LevelOf returns what counts as consumed of a key, by the last decision that was witnessed.
func (l *Ledger) LevelOf(key Key) (*quota.Plan, int64) {
	now := l.now()
	sh := l.shardOf(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.records[key]
	if r == nil {
		return nil, 0
	}
	if r.region == nil {
		return r.plan, 0
	}
	level := r.region.level
	if r.plan.IsBucket() {
		level -= r.plan.UnitsIn(r.at(now)-r.region.at, max(0, level))
	}
	return r.plan, max(0, level)
}
