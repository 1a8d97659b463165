package lease

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// TakeAll takes the costs of all checks or of none. It decides the checks one after the other. When one is denied, it
// puts back the units of the checks in front of it, and does not decide the checks after it. See [headgate.Limiter].
func (l *Limiter) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	if err := l.checkOpen(ctx); err != nil {
		return dst, err
	}
	if len(checks) == 1 { // the usual case
		dst = append(dst, headgate.Decision{})
		d := &dst[len(dst)-1]
		if l.decideLocally(&checks[0], d) {
			return dst, nil
		}
		decision, err := l.take(ctx, &checks[0])
		if err != nil {
			return dst[:len(dst)-1], err
		}
		*d = decision
		return dst, nil
	}
	return l.takeSeveral(ctx, checks, dst)
}

func (l *Limiter) takeSeveral(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	for i := range checks {
		if err := checks[i].Validate(); err != nil {
			return dst, err
		}
		if !algorithm.Grantable(checks[i].Limit.Algorithm) {
			return dst, headgate.ErrUnsupported
		}
	}
	if err := headgate.ValidateCombination(checks); err != nil {
		return dst, err
	}
	before := len(dst)
	for range checks {
		dst = append(dst, headgate.Decision{Allowed: true})
	}
	decisions := dst[before:]
	for i := range checks { // a recent denial avoids that units are taken and put back
		if l.deniedLocally(&checks[i], &decisions[i]) {
			return dst, nil
		}
	}
	for i := range checks {
		var err error
		if !l.decideLocally(&checks[i], &decisions[i]) {
			decisions[i], err = l.take(ctx, &checks[i])
		}
		if err == nil && decisions[i].Allowed {
			continue
		}
		l.undo(ctx, checks[:i], decisions[:i])
		if err != nil {
			return dst[:before], err
		}
		for j := i + 1; j < len(decisions); j++ {
			decisions[j] = headgate.Decision{Allowed: true}
		}
		return dst, nil
	}
	return dst, nil
}

// deniedLocally reports whether a check is denied because of a recent denial. If so, it sets d.
func (l *Limiter) deniedLocally(c *headgate.Check, d *headgate.Decision) bool {
	if c.Cost < 1 || c.Split != 0 {
		return false
	}
	h := l.table.find(l.table.hash(c.Key), c.Key, &c.Limit)
	if h == nil {
		return false
	}
	x := h.denial.Load()
	if x == nil {
		return false
	}
	now := l.clock.Elapsed()
	if g := h.front.Load(); now >= x.until || c.Cost < x.cost || g != nil && now < g.expires && g.left.Load() >= c.Cost {
		return false
	}
	l.deny(h, x, now, c.Cost, d)
	return true
}

// undo puts back the units that checks took, and corrects their decisions.
func (l *Limiter) undo(ctx context.Context, checks []headgate.Check, decisions []headgate.Decision) {
	for i := range decisions {
		d := &decisions[i]
		if d.Receipt.Units > 0 {
			c := checks[i]
			c.Cost = d.Receipt.Units
			if err := l.give(context.WithoutCancel(ctx), &c, d.Receipt); err != nil {
				l.counts.failures.Add(1)
			}
			d.Remaining = min(d.Limit, d.Remaining+d.Receipt.Units)
			d.Receipt = headgate.Receipt{}
		}
	}
}

// Charge takes the cost from the store regardless of the limit. It does not change the units that this node holds. See
// [headgate.Limiter].
func (l *Limiter) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := l.checkOpen(ctx); err != nil {
		return headgate.Decision{}, err
	}
	l.counts.calls.Add(1)
	ctx, end := l.withTimeout(ctx)
	defer end()
	return l.source.Charge(ctx, cloneCheck(&c))
}

// Renew returns ErrUnsupported, because concurrency limits cannot be leased. See [headgate.Limiter].
func (l *Limiter) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	if err := l.checkOpen(ctx); err != nil {
		return false, err
	}
	if err := c.Validate(); err != nil {
		return false, err
	}
	if err := headgate.ValidateRefund(c.Cost, r); err != nil {
		return false, err
	}
	return false, headgate.ErrUnsupported
}

// Give puts units back into their lease. If the lease has expired, it returns the units to the store, which credits
// those that have not refilled. See [headgate.Limiter].
func (l *Limiter) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	if err := l.checkOpen(ctx); err != nil {
		return err
	}
	if err := c.Validate(); err != nil {
		return err
	}
	if err := headgate.ValidateRefund(c.Cost, r); err != nil {
		return err
	}
	return l.give(ctx, &c, r)
}

func (l *Limiter) give(ctx context.Context, c *headgate.Check, r headgate.Receipt) error {
	if h := l.table.find(l.table.hash(c.Key), c.Key, &c.Limit); h != nil && r.At >= 0 {
		r.Units = c.Cost
		if r.Units -= l.giveHeld(h, r); r.Units == 0 {
			return nil
		}
	}
	refund := cloneCheck(c)
	refund.Cost = r.Units
	l.counts.calls.Add(1)
	ctx, end := l.withTimeout(ctx)
	defer end()
	return l.source.Give(ctx, refund, r)
}

// giveHeld puts units back into grants that have not expired, and returns the number of units put back.
func (l *Limiter) giveHeld(h *holding, r headgate.Receipt) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.removed { // the units would be lost, because no take finds this holding
		return 0
	}
	l.prune(h, l.clock.Elapsed())
	n := h.putBack(r)
	if n > 0 {
		h.denial.Store(nil)
	}
	return n
}

// Reset clears the consumption of the check's key in the store, and drops the units that this node holds. Other nodes
// may use their units until they expire. See [headgate.Limiter].
func (l *Limiter) Reset(ctx context.Context, c headgate.Check) error {
	if err := l.checkOpen(ctx); err != nil {
		return err
	}
	if err := headgate.ValidateKey(c.Key); err != nil {
		return err
	}
	key := cloneCheck(&c)
	held := make(map[*holding]bool)
	l.table.each(key.Key, func(h *holding) {
		held[h] = true
		l.drop(h, 1)
	})
	defer l.table.each(key.Key, func(h *holding) {
		if held[h] {
			l.resume(h)
		} else {
			l.drop(h, 0) // the holding is new, and its units may have been granted before the reset
		}
	})
	l.counts.calls.Add(1)
	ctx, end := l.withTimeout(ctx)
	defer end()
	return l.source.Reset(ctx, key)
}

// resume allows calls again after a reset.
func (l *Limiter) resume(h *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls.resets--
	l.callWhenAllowed(h, l.clock.Elapsed())
}

// drop drops the held units. Units of a call in progress are dropped when they arrive. newResets is 1 if a reset of the
// key begins, otherwise 0. No call starts until the reset has ended.
func (l *Limiter) drop(h *holding, newResets int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls.resets += newResets
	for _, unused := range h.endGrants() {
		l.counts.expired.Add(unused.units)
	}
	h.denial.Store(nil)
	h.store.scarce = false
	h.calls.generation++
}

// returnOtherLimits returns units that are held for the same key under other limits to the store. If the store fails,
// they stay consumed.
func (l *Limiter) returnOtherLimits(ctx context.Context, current *holding) {
	var list []refund
	l.table.each(current.key, func(h *holding) {
		if h != current {
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, unused := range h.endGrants() {
				list = append(list, refund{h, unused.grant.receipt(unused.units)})
			}
		}
	})
	for _, r := range list {
		l.returnUnits(ctx, r.holding, r.receipt)
	}
}
