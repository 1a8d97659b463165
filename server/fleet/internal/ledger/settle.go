package ledger

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/server/fleet/internal/quota"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// Charge takes the cost regardless of the limit. See [headgate.Limiter].
func (l *Ledger) Charge(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	if err := l.checkOpen(ctx); err != nil {
		return d, err
	}
	now := l.now()
	req, err := l.prepare(&c)
	if err == nil {
		err = headgate.ValidateUnits(c.Cost)
	}
	if err != nil {
		return d, err
	}
	if req.plan.Kind == algorithm.KindLeases {
		return d, headgate.ErrUnsupported
	}
	sh := l.shardOf(&req.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r, err := l.findOrAdd(sh, req.key, req.plan, req.offset, now)
	if err != nil {
		return d, err
	}
	if req.sharePlan != nil || r.extra.liveShare != nil {
		l.setLiveShare(r, &req, now)
	}
	l.applyLimit(r, req.plan, req.offset, now)
	l.noteRequest(sh, r, now)
	d = r.charge(req.units, now)
	l.countConsumed(sh, r, d.Receipt.Units, now)
	r.updateEmptyAt(&d, now)
	r.includePending(&d, 0)
	r.applyExtraCounters(&d, 0, r.time(now))
	d.Degraded = req.allowance.Degraded
	if req.otherKind {
		d.Receipt.Lease = leaseForKind(req.plan.Kind)
	}
	return d, nil
}

// Renew extends the slot of a concurrency limit by another TTL. Slots are counted only on this node. See
// [headgate.Limiter].
func (l *Ledger) Renew(ctx context.Context, c headgate.Check, receipt headgate.Receipt) (held bool, err error) {
	if err := l.checkOpen(ctx); err != nil {
		return false, err
	}
	if err := c.Validate(); err != nil {
		return false, err
	}
	if err := headgate.ValidateRefund(c.Cost, receipt); err != nil {
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
	r, err := l.findOrAdd(sh, key, p, p.Offset(c.Key), now)
	if err != nil {
		return false, err
	}
	l.applyLimit(r, p, 0, now)
	if held, err = r.usage.Renew(p, r.time(now), c.Cost, receipt.Lease); err != nil {
		return false, err
	}
	d := r.usage.Decide(p, r.time(now), 0)
	r.updateEmptyAt(&d, now)
	return held, nil
}

// Give returns units that were taken. See [headgate.Limiter]. Units that were not sent yet are subtracted from the
// total. If units were already sent, the same number of units taken later is not sent.
func (l *Ledger) Give(ctx context.Context, c headgate.Check, receipt headgate.Receipt) error {
	if err := l.checkOpen(ctx); err != nil {
		return err
	}
	now := l.now()
	p, err := l.plans.Get(&c.Limit, quota.NewPlan)
	if err != nil || c.Key == "" || len(c.Key) > headgate.MaxKeyBytes || c.Cost < 0 {
		return c.Validate()
	}
	if err := headgate.ValidateRefund(c.Cost, receipt); err != nil {
		return err
	}
	kind := p.Kind
	if other, ok := kindOf(receipt, kind); ok {
		kind = other
	}
	key := l.hash(c.Key, kind)
	sh, r := l.lockRecord(&key)
	defer sh.mu.Unlock()
	if r == nil {
		r = sh.currentRecord(key, kind)
	}
	if r != nil {
		r = r.current() // a refund does not change the limit
		l.advance(r, now)
		if kind == p.Kind {
			receipt.At += r.time(now) - now.clockOf(p, p.Offset(c.Key)) // by the record's clock
		}
		r.giveBack(p, c.Cost, receipt, now)
	}
	return nil
}

// Reset clears the consumption of the check's key, on this node and on all peers when they receive the reset. See
// [headgate.Limiter].
func (l *Ledger) Reset(ctx context.Context, c headgate.Check) error {
	if err := l.checkOpen(ctx); err != nil {
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
			r.restartTotal(now)
			r.status.startedByReset = true
			l.queueChange(sh, r)
		}
		sh.mu.Unlock()
	}
	return nil
}

// recordToReset returns the record of a key. If there is none and the limit is of the given kind, it adds a record, so
// that peers receive the reset.
func (l *Ledger) recordToReset(sh *shard, key tally.Key, kind algorithm.Kind, c *headgate.Check, now moment) *record {
	p, err := l.plans.Get(&c.Limit, quota.NewPlan)
	if err != nil || p.Kind != kind || !p.Shared {
		return sh.records[key]
	}
	r, _ := l.findOrAdd(sh, key, p, p.Offset(c.Key), now) // if there is no room for it, nothing was consumed on this node
	return r
}

// otherKindFlag is a flag in Receipt.Lease, which only concurrency limits use otherwise. It marks units that were
// counted under a limit whose algorithm has another kind of state than the check's.
const otherKindFlag = 1 << 62

func leaseForKind(kind algorithm.Kind) uint64 { return otherKindFlag | uint64(kind) }

func kindOf(receipt headgate.Receipt, own algorithm.Kind) (algorithm.Kind, bool) {
	kind := algorithm.Kind(receipt.Lease &^ otherKindFlag)
	return kind, receipt.Lease&otherKindFlag != 0 && kind < algorithm.Kinds && own != algorithm.KindLeases
}
