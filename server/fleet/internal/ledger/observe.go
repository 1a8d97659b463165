package ledger

import (
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/lookup"
	"github.com/headgate/headgate/server/fleet/internal/quota"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// In package region, another limiter decides: that of the region's store. Region records these decisions with the
// methods in this file, so that their units are sent to other regions.

// Observe records the decision d of another limiter on a check, and counts the units that it took as consumed by this
// node.
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
		return // no room: only the region's store counts the units, not other regions; see LedgerStats.Full
	}
	l.applyLimit(r, p, p.Offset(c.Key), now)
	l.noteRequest(sh, r, now)
	r.extra.observed.level, r.extra.observed.observedAt = p.Capacity()-d.Remaining, r.time(now)
	if units := d.Receipt.Units; units > 0 {
		own := r.charge(units, now)
		r.updateEmptyAt(&own, now)
		l.countConsumed(sh, r, units, now)
		r.status.denied = false
		return
	}
	if r.status.denied = false; !d.Allowed {
		r.deny(c.Cost, now)
	}
	l.queueLookup(sh, r)
}

// An ObservedKey is the key and plan of a check that another limiter decides.
type ObservedKey struct {
	Plan *quota.Plan // nil if the limit is not shared
	Key  tally.Key
}

// observedRecord returns the record of a check. It stores a copy of the check in the record, which is needed to charge
// units of other regions later. The shard is locked.
func (l *Ledger) observedRecord(sh *shard, c *headgate.Check, k *ObservedKey, now moment) (*record, error) {
	r, err := l.findOrAdd(sh, k.Key, k.Plan, k.Plan.Offset(c.Key), now)
	if err != nil {
		return nil, err
	}
	if r.extra.observed == nil {
		r.extra.observed = &observation{}
	}
	if r.extra.observed.check.Limit != c.Limit {
		r.extra.observed.check = headgate.Check{
			Key: strings.Clone(c.Key), Limit: c.Limit, Owner: strings.Clone(c.Owner), Split: c.Split, OnFailure: c.OnFailure,
			Safe: c.Safe,
		}
	}
	return r, nil
}

// BeforeTake must be called before another limiter decides a check. It sets k, and returns the lookup to wait for, or
// nil.
func (l *Ledger) BeforeTake(c *headgate.Check, k *ObservedKey) *lookup.Lookup {
	if *k = l.ObservedKey(c); k.Plan == nil {
		return nil
	}
	now := l.now()
	sh, r := l.lockRecord(&k.Key)
	defer sh.mu.Unlock()
	isNew := r == nil
	if isNew {
		var err error
		if r, err = l.observedRecord(sh, c, k, now); err != nil {
			return nil // no room for a record: the key is not looked up
		}
	}
	// The first take of a key does not wait. Neither does a check after a denial: a lookup could only find more units.
	if isNew && c.Cost > 0 || r.status.denied {
		return nil
	}
	return l.checkLookup(sh, r, &request{peek: true, mayWait: true}, now)
}

// ObservedKey returns the key and plan of a check. Both are zero if nodes cannot share its limit.
func (l *Ledger) ObservedKey(c *headgate.Check) ObservedKey {
	p, err := l.plans.Get(&c.Limit, quota.NewPlan)
	if err != nil || !p.Shared {
		return ObservedKey{}
	}
	return ObservedKey{Plan: p, Key: l.hash(c.Key, p.Kind)}
}

// SetLevel records the level of a key from the decision of another limiter on a charge.
func (l *Ledger) SetLevel(key tally.Key, d *headgate.Decision) {
	now := l.now()
	sh, r := l.lockRecord(&key)
	defer sh.mu.Unlock()
	if r != nil && r.extra.observed != nil {
		r.extra.observed.level, r.extra.observed.observedAt = r.plan.Capacity()-d.Remaining, r.time(now)
	}
}

// Refund records that the cost of a check was given back to another limiter.
func (l *Ledger) Refund(c *headgate.Check) {
	k := l.ObservedKey(c)
	if k.Plan == nil {
		return
	}
	now := l.now()
	sh, r := l.lockRecord(&k.Key)
	defer sh.mu.Unlock()
	if r != nil {
		l.advance(r, now)
		r.giveBack(r.plan, c.Cost, headgate.Receipt{At: r.time(now), Units: c.Cost}, now)
	}
}

// CheckOf returns the check that was last observed for a key. The result is false if there is none.
func (l *Ledger) CheckOf(key tally.Key) (headgate.Check, bool) {
	sh, r := l.lockRecord(&key)
	defer sh.mu.Unlock()
	if r != nil && r.extra.observed != nil {
		return r.extra.observed.check, true
	}
	return headgate.Check{}, false
}

// LevelOf returns the plan and the current level of a key, computed from the latest observed decision.
func (l *Ledger) LevelOf(key tally.Key) (*quota.Plan, int64) {
	now := l.now()
	sh, r := l.lockRecord(&key)
	defer sh.mu.Unlock()
	if r == nil {
		return nil, 0
	}
	if r.extra.observed == nil {
		return r.plan, 0
	}
	level := r.extra.observed.level
	if r.plan.IsBucket() {
		level -= r.plan.DrainedOf(max(0, level), r.time(now)-r.extra.observed.observedAt)
	}
	return r.plan, max(0, level)
}
