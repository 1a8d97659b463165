package lease

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// TakeAll takes for all checks or for none, key by key and in order: when one is denied, what was taken before goes back to
// where it came from, and those behind it are not asked. See [headgate.Limiter].
func (l *Limiter) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	if err := l.admit(ctx); err != nil {
		return dst, err
	}
	if len(checks) == 1 { // as nearly always
		dst = append(dst, headgate.Decision{})
		d := &dst[len(dst)-1]
		if l.known(&checks[0], d) {
			return dst, nil
		}
		made, err := l.take(ctx, &checks[0])
		if err != nil {
			return dst[:len(dst)-1], err
		}
		*d = made
		return dst, nil
	}
	return l.takeSeveral(ctx, checks, dst)
}

func (l *Limiter) takeSeveral(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	for i := range checks {
		if err := checks[i].Validate(); err != nil {
			return dst, err
		}
		if !algorithm.Grantable(checks[i].Limit.Algorithm) {
			return dst, headgate.ErrUnsupported
		}
	}
	if err := headgate.ValidateAll(checks); err != nil {
		return dst, err
	}
	before := len(dst)
	for range checks {
		dst = append(dst, headgate.Decision{Allowed: true})
	}
	made := dst[before:]
	for i := range checks { // one that is known to be denied need not touch the others
		if l.knownDenied(&checks[i], &made[i]) {
			return dst, nil
		}
	}
	for i := range checks {
		var err error
		if !l.known(&checks[i], &made[i]) {
			made[i], err = l.take(ctx, &checks[i])
		}
		if err == nil && made[i].Allowed {
			continue
		}
		l.undo(ctx, checks[:i], made[:i])
		if err != nil {
			return dst[:before], err
		}
		for j := i + 1; j < len(made); j++ {
			made[j] = headgate.Decision{Allowed: true}
		}
		return dst, nil
	}
	return dst, nil
}

// knownDenied decides a check that is known to be denied.
func (l *Limiter) knownDenied(c *headgate.Check, d *headgate.Decision) bool {
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
	now := l.clock.Now()
	if g := h.front.Load(); now >= x.until || c.Cost < x.cost || g != nil && now < g.expires && g.left.Load() >= c.Cost {
		return false
	}
	h.denied.Add(c.Cost)
	l.counters.denied.Add(1)
	x.describe(d, h.capacity, now, c.Cost)
	return true
}

// undo puts back what checks took.
func (l *Limiter) undo(ctx context.Context, checks []headgate.Check, made []headgate.Decision) {
	for i := range made {
		d := &made[i]
		if d.Receipt.Units > 0 {
			c := checks[i]
			c.Cost = d.Receipt.Units
			if err := l.give(context.WithoutCancel(ctx), &c, d.Receipt); err != nil {
				l.counters.failures.Add(1)
			}
			d.Remaining = min(d.Limit, d.Remaining+d.Receipt.Units)
			d.Receipt = headgate.Receipt{}
		}
	}
}

// Charge takes the cost from the store, whatever the limit says. What this node holds was debited before and stays. See
// [headgate.Limiter].
func (l *Limiter) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := l.admit(ctx); err != nil {
		return headgate.Decision{}, err
	}
	l.counters.calls.Add(1)
	ctx, end := l.within(ctx)
	defer end()
	return l.source.Charge(ctx, kept(&c))
}

// Renew is ErrUnsupported: no slots of concurrency limits are taken here. See [headgate.Limiter].
func (l *Limiter) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	if err := l.admit(ctx); err != nil {
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

// Give returns units to the lease that they came from while that lives, else to the store, which credits what time has not.
// See [headgate.Limiter].
func (l *Limiter) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	if err := l.admit(ctx); err != nil {
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
	back := kept(c)
	back.Cost = r.Units
	l.counters.calls.Add(1)
	ctx, end := l.within(ctx)
	defer end()
	return l.source.Give(ctx, back, r)
}

// giveHeld returns units to what is held, and says how many that took.
func (l *Limiter) giveHeld(h *holding, r headgate.Receipt) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone { // who takes from it next would not find it
		return 0
	}
	l.prune(h, l.clock.Now())
	n := h.putBack(r)
	if n > 0 {
		h.denial.Store(nil)
	}
	return n
}

// Reset forgets what was consumed under the check's key, in the store, and what this node holds of it. What other nodes hold
// they may use until it expires. See [headgate.Limiter].
func (l *Limiter) Reset(ctx context.Context, c headgate.Check) error {
	if err := l.admit(ctx); err != nil {
		return err
	}
	if err := headgate.ValidateKey(c.Key); err != nil {
		return err
	}
	key := kept(&c)
	held := make(map[*holding]bool)
	l.table.of(key.Key, func(h *holding) {
		held[h] = true
		l.forget(h, 1)
	})
	defer l.table.of(key.Key, func(h *holding) {
		if held[h] {
			l.goOn(h)
		} else {
			l.forget(h, 0) // it is new, and what it has may be from before
		}
	})
	l.counters.calls.Add(1)
	ctx, end := l.within(ctx)
	defer end()
	return l.source.Reset(ctx, key)
}

// goOn lets a holding ask again after a reset.
func (l *Limiter) goOn(h *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resetting--
	l.advance(h, l.clock.Now())
}

// forget drops what is held. What is under way will not count, and while a reset is nothing is asked for.
func (l *Limiter) forget(h *holding, resetting int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resetting += resetting
	for _, g := range h.grants {
		unused := g.end()
		h.used += g.size - unused
		l.counters.expired.Add(unused)
	}
	l.counters.expired.Add(h.owed.units)
	h.grants, h.owed = nil, owing{}
	h.front.Store(nil)
	h.denial.Store(nil)
	h.scarce = false
	h.gen++
}

// handBackOthers returns to the store what this node holds of a key under other limits. A store that fails keeps it as consumed.
func (l *Limiter) handBackOthers(ctx context.Context, made *holding) {
	var list []refund
	l.table.of(made.key, func(h *holding) {
		if h != made {
			list = h.appendUnused(list)
		}
	})
	for _, r := range list {
		l.giveBack(ctx, r.holding, r.receipt)
	}
}

// appendUnused ends what is held and appends the units that nobody used.
func (h *holding) appendUnused(list []refund) []refund {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.grants {
		unused := g.end()
		h.used += g.size - unused
		if unused > 0 {
			list = append(list, refund{h, g.receipt(unused)})
		}
	}
	if o := h.owed; o.units > 0 {
		list = append(list, refund{h, o.of.receipt(o.units)})
	}
	h.grants, h.owed = nil, owing{}
	h.front.Store(nil)
	return list
}
