package ledger

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// Charge takes the cost regardless of the limit. See [headgate.Limiter].
func (l *Ledger) Charge(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	if err := l.admit(ctx); err != nil {
		return d, err
	}
	now := l.now()
	q, _, err := l.prepare(&c)
	if err == nil {
		err = headgate.ValidateUnits(c.Cost)
	}
	if err != nil {
		return d, err
	}
	if q.plan.Kind == algorithm.KindLeases {
		return d, headgate.ErrUnsupported
	}
	sh := l.shardOf(&q.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r, err := l.findOrAdd(sh, q.key, q.plan, q.offset, now)
	if err != nil {
		return d, err
	}
	if q.sharePlan != nil || r.optional.share != nil {
		l.setShare(r, &q, now)
	}
	l.update(r, q.plan, q.offset, now)
	l.noteRequest(sh, r, now)
	d = r.charge(q.units, now)
	l.countConsumed(sh, r, d.Receipt.Units, now)
	r.setEmptyAt(&d, now)
	r.addOwed(&d, 0)
	r.tightenByExtraCounters(&d, 0, r.at(now))
	d.Degraded = q.degraded
	if q.otherKind {
		d.Receipt.Lease = leaseOfKind(q.plan.Kind)
	}
	return d, nil
}

// Renew gives the slot of a concurrency limit another TTL. Slots are counted on this node alone. See
// [headgate.Limiter].
func (l *Ledger) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (held bool, err error) {
	if err := l.admit(ctx); err != nil {
		return false, err
	}
	if err := c.Validate(); err != nil {
		return false, err
	}
	if err := headgate.ValidateRefund(c.Cost, r); err != nil {
		return false, err
	}
	if c.Limit.Algorithm != headgate.Concurrency {
		return false, headgate.ErrUnsupported
	}
	p, err := l.plans.Get(&c.Limit, quota.NewPlan)
	if err != nil {
		return false, err
	}
	now, key := l.now(), l.hash(c.Key, p.Kind)
	sh := l.shardOf(&key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	rec, err := l.findOrAdd(sh, key, p, p.Offset(c.Key), now)
	if err != nil {
		return false, err
	}
	l.update(rec, p, 0, now)
	if held, err = rec.consumed.Renew(p, rec.at(now), c.Cost, r.Lease); err != nil {
		return false, err
	}
	d := rec.consumed.Decide(p, rec.at(now), 0)
	rec.setEmptyAt(&d, now)
	return held, nil
}

// Give returns units that were taken. See [headgate.Limiter]. Units that were not sent yet are subtracted from the
// total. Units that were sent are offset by the next takes, which are not sent until then.
func (l *Ledger) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	if err := l.admit(ctx); err != nil {
		return err
	}
	now := l.now()
	p, err := l.plans.Get(&c.Limit, quota.NewPlan)
	if err != nil || c.Key == "" || len(c.Key) > headgate.MaxKeyBytes || c.Cost < 0 {
		return c.Validate()
	}
	if err := headgate.ValidateRefund(c.Cost, r); err != nil {
		return err
	}
	kind := p.Kind
	if other, ok := kindOf(r, kind); ok {
		kind = other
	}
	key := l.hash(c.Key, kind)
	sh, rec := l.lock(&key)
	defer sh.mu.Unlock()
	if rec == nil {
		rec = sh.inForce(key, kind)
	}
	if rec != nil {
		rec = rec.current() // a refund does not change the limit
		l.advance(rec, now)
		if kind == p.Kind {
			r.At += rec.at(now) - now.at(p, p.Offset(c.Key)) // by the record's clock
		}
		rec.give(p, c.Cost, r, now)
	}
	return nil
}

// Reset forgets the consumption of the check's key, here and on all peers as soon as they receive it. See
// [headgate.Limiter].
func (l *Ledger) Reset(ctx context.Context, c headgate.Check) error {
	if err := l.admit(ctx); err != nil {
		return err
	}
	if err := headgate.ValidateKey(c.Key); err != nil {
		return err
	}
	now := l.now()
	for kind := range algorithm.Kinds {
		key := l.hash(c.Key, kind)
		sh := l.shardOf(&key)
		sh.mu.Lock()
		if r := l.recordToReset(sh, key, kind, &c, now); r != nil {
			r.reset(now)
			r.restart(now)
			r.status.reset = true
			l.queueChange(sh, r)
		}
		sh.mu.Unlock()
	}
	return nil
}

// recordToReset returns the record of a key. If there is none and the limit is of that kind, it adds one, so that peers
// receive the reset.
func (l *Ledger) recordToReset(sh *shard, key Key, kind algorithm.Kind, c *headgate.Check, now moment) *record {
	if r := sh.records[key]; r != nil {
		return r
	}
	p, err := l.plans.Get(&c.Limit, quota.NewPlan)
	if err != nil || p.Kind != kind || !p.Shared {
		return nil
	}
	r, err := l.add(sh, key, p, p.Offset(c.Key), now)
	if err != nil {
		return nil // no room, and nothing consumed here
	}
	return r
}

// otherKind is a flag in Receipt.Lease, which only concurrency limits use otherwise. It marks units that were counted
// under a limit whose algorithm has another kind of state than the check's.
const otherKind = 1 << 62

func leaseOfKind(k algorithm.Kind) uint64 { return otherKind | uint64(k) }

func kindOf(r headgate.Receipt, own algorithm.Kind) (algorithm.Kind, bool) {
	k := algorithm.Kind(r.Lease &^ otherKind)
	return k, r.Lease&otherKind != 0 && k < algorithm.Kinds && own != algorithm.KindLeases
}
