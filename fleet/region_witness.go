package fleet

import (
	"strings"

	"github.com/headgate/headgate"
)

// witness notes what another limiter decided, and that this node consumed it. Keys are told by; what is needed to charge
// them later is kept.
func (l *Ledger) witness(c *headgate.Check, d *headgate.Decision) {
	p, key, ok := l.told(c)
	if !ok {
		return
	}
	now := l.now()
	sh := l.shardOf(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.records[key]
	if r == nil {
		var err error
		if r, err = l.add(sh, key, p, p.Offset(c.Key), now); err != nil {
			return // it is counted by the region, and not told; Stats.Full says so
		}
	}
	if r.check == nil || r.check.Limit != c.Limit {
		r.check = &headgate.Check{
			Key: strings.Clone(c.Key), Limit: c.Limit, Owner: strings.Clone(c.Owner), Split: c.Split, OnFailure: c.OnFailure, Safe: c.Safe,
		}
	}
	l.arrive(r, p, now)
	r.askedAt = r.at(now)
	r.elsewhere, r.elsewhereAt = p.Capacity()-d.Remaining, r.at(now)
	if units := d.Receipt.Units; units > 0 {
		own := l.charge(r, units, now)
		r.emptied(&own, now)
		l.consumed(sh, r, units, now)
		return
	}
	r.denied = !d.Allowed
	l.asked(sh, r)
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
	if r := sh.records[key]; r != nil && r.check != nil {
		r.elsewhere, r.elsewhereAt = r.plan.Capacity()-d.Remaining, r.at(now)
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
		l.give(r, c.Cost, headgate.Receipt{At: r.at(now), Units: c.Cost}, now)
	}
}

// checkOf returns a check that was witnessed.
func (l *Ledger) checkOf(key Key) (headgate.Check, bool) {
	sh := l.shardOf(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r := sh.records[key]; r != nil && r.check != nil {
		return *r.check, true
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
	level := r.elsewhere
	if r.plan.leaks() {
		level -= r.plan.unitsIn(r.at(now)-r.elsewhereAt, max(0, level))
	}
	return r.plan, max(0, level)
}
