package fleet

import (
	"strings"

	"github.com/headgate/headgate"
)

// witness notes what another limiter decided on a check, and that this node consumed it.
func (l *Ledger) witness(c *headgate.Check, k *witnessKey, d *headgate.Decision) {
	if k.plan == nil {
		return
	}
	p, now := k.plan, l.now()
	sh := l.shardOf(&k.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r, err := l.witnessed(sh, c, k, now)
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

// A witnessKey is what a check that another limiter decides on is counted by, if others are told of it.
type witnessKey struct {
	plan *plan // nil if they are not
	key  Key
}

// witnessed returns the record of a check, with what is needed to charge it later. The shard is locked.
func (l *Ledger) witnessed(sh *shard, c *headgate.Check, k *witnessKey, now moment) (*record, error) {
	r := sh.records[k.key]
	if r == nil {
		var err error
		if r, err = l.add(sh, k.key, k.plan, k.plan.Offset(c.Key), now); err != nil {
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

// foresee notes that another limiter is about to decide on a check. It returns what has to be waited for before, or nil.
func (l *Ledger) foresee(c *headgate.Check, k *witnessKey) *lookup {
	var ok bool
	if k.plan, k.key, ok = l.told(c); !ok {
		k.plan = nil
		return nil
	}
	now := l.now()
	sh := l.shardOf(&k.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.records[k.key]
	isNew := r == nil
	if isNew {
		var err error
		if r, err = l.witnessed(sh, c, k, now); err != nil {
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

// told returns by what a check that others are told of is counted.
func (l *Ledger) told(c *headgate.Check) (p *plan, key Key, ok bool) {
	p, err := l.plans.Get(&c.Limit, newPlan)
	if err != nil || !p.shared {
		return nil, key, false
	}
	return p, l.hash(c.Key, p.kind), true
}

// standing notes what another limiter said of a key when it was charged.
func (l *Ledger) standing(key Key, d *headgate.Decision) {
	now := l.now()
	sh := l.shardOf(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r := sh.records[key]; r != nil && r.region != nil {
		r.region.level, r.region.at = r.plan.Capacity()-d.Remaining, r.at(now)
	}
}

// takeBack notes that units were given back to another limiter.
func (l *Ledger) takeBack(c *headgate.Check) {
	_, key, ok := l.told(c)
	if !ok {
		return
	}
	now := l.now()
	sh := l.shardOf(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r := sh.records[key]; r != nil {
		l.roll(r, now)
		l.give(r, r.plan, c.Cost, headgate.Receipt{At: r.at(now), Units: c.Cost}, now)
	}
}

// checkOf returns a check that was witnessed.
func (l *Ledger) checkOf(key Key) (headgate.Check, bool) {
	sh := l.shardOf(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r := sh.records[key]; r != nil && r.region != nil {
		return r.region.check, true
	}
	return headgate.Check{}, false
}

// levelOf returns what counts as consumed of a key, by the last decision that was witnessed.
func (l *Ledger) levelOf(key Key) (*plan, int64) {
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
	if r.plan.leaks() {
		level -= r.plan.unitsIn(r.at(now)-r.region.at, max(0, level))
	}
	return r.plan, max(0, level)
}
