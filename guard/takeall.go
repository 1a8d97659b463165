package guard

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
)

// TakeAll takes all or none. See [headgate.Limiter], and the package comment for the order in which shards are asked.
func (g *Guard) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	if err := g.admit(ctx); err != nil {
		return dst, err
	}
	if err := headgate.ValidateAll(checks); err != nil {
		return dst, err
	}
	for i := range checks {
		if err := checks[i].Validate(); err != nil {
			return dst, err
		}
	}
	switch len(checks) {
	case 0:
		return dst, nil
	case 1:
		d, err := g.take(ctx, &checks[0])
		if err != nil {
			return dst, err
		}
		return append(dst, d), nil
	}
	before := len(dst)
	for range checks {
		dst = append(dst, headgate.Decision{Allowed: true})
	}
	if g.denies(checks, dst[before:]) {
		return dst, nil
	}
	b := basket{g: g, ctx: ctx, checks: checks, decisions: dst[before:]}
	if err := b.take(); err != nil {
		return dst[:before], err
	}
	return dst, nil
}

// denies reports whether one of the checks is known to be denied, and notes all that are.
func (g *Guard) denies(checks []headgate.Check, decisions []headgate.Decision) bool {
	if g.denials == nil {
		return false
	}
	denied := false
	now := g.clock.micros()
	for i := range checks {
		c := &checks[i]
		if d, ok := g.denials.lookup(g.denials.hash(c), c, now); ok {
			decisions[i], denied = d, true
		}
	}
	if denied {
		g.counters.cacheHits.add()
	}
	return denied
}

// A basket is several checks on their way. A decision that is not made yet allows and has no Limit.
type basket struct {
	g         *Guard
	ctx       context.Context
	checks    []headgate.Check
	decisions []headgate.Decision

	asks   []ask
	shards []*shard // nil once its checks are decided
	from   []*shard // which took the check's units, nil if none did
	group  []int    // the checks that are looked at
}

func (b *basket) take() error {
	var (
		asks   [8]ask
		shards [16]*shard
		group  [8]int
	)
	n := len(b.checks)
	b.asks, b.group = append(asks[:0], make([]ask, n)...), group[:0]
	room := append(shards[:0], make([]*shard, 2*n)...)
	b.shards, b.from = room[:n], room[n:]
	for i := range b.checks {
		c := &b.checks[i]
		b.shards[i], b.asks[i].check = b.g.shardOf(c), c
		if b.g.denials != nil {
			b.asks[i].hash = b.g.denials.hash(c)
		}
	}
	passes, err := b.settleDown()
	for i := 0; passes && err == nil && i < n; i++ {
		if b.shards[i] != nil {
			passes, err = b.askShard(b.shards[i])
		}
	}
	if !passes || err != nil {
		b.undo()
	}
	return err
}

// settleDown lets policies decide the checks whose shards are down, and reports whether they let them pass. It is done
// before anybody is asked: Closed denies, and Local asks nobody else.
func (b *basket) settleDown() (passes bool, err error) {
	b.group = b.group[:0]
	for i, s := range b.shards {
		if s.down.Load() {
			b.group = append(b.group, i)
		}
	}
	return b.settle()
}

// settle lets policies decide the checks of the group, and reports whether they let them pass.
func (b *basket) settle() (passes bool, err error) {
	if len(b.group) == 0 {
		return true, nil
	}
	passes = true
	var locals []int
	for _, i := range b.group {
		c := &b.checks[i]
		d, denied := b.g.byItself(b.shards[i], c)
		switch {
		case denied:
			passes = false
			b.decide(i, c.OnFailure, d)
		case c.OnFailure == headgate.Local:
			locals = append(locals, i)
		}
	}
	if passes && len(locals) > 0 {
		if passes, err = b.settleLocal(locals); err != nil {
			return false, err
		}
	}
	if passes {
		for _, i := range b.group {
			if c := &b.checks[i]; c.OnFailure == headgate.Open {
				b.decide(i, headgate.Open, open(c))
			}
		}
	}
	for _, i := range b.group {
		b.shards[i] = nil
	}
	return passes, nil
}

// settleLocal lets the local limiter decide.
func (b *basket) settleLocal(locals []int) (passes bool, err error) {
	checks := make([]headgate.Check, len(locals))
	for j, i := range locals {
		checks[j] = b.g.localCheck(&b.checks[i])
	}
	ds, err := b.g.local.TakeAll(b.ctx, checks, nil)
	if err == nil && len(ds) != len(checks) {
		err = fmt.Errorf("guard: the local limiter made %d decisions about %d checks", len(ds), len(checks))
	}
	if err != nil {
		if b.ctx.Err() != nil {
			return false, b.ctx.Err()
		}
		for _, i := range locals {
			b.g.counters.localFailures.Add(1)
			b.decide(i, headgate.Local, open(&b.checks[i]))
		}
		return true, nil
	}
	for j, i := range locals {
		b.decide(i, headgate.Local, localDecision(b.shards[i], ds[j]))
	}
	return headgate.Allowed(ds), nil
}

// decide notes what a policy decided.
func (b *basket) decide(i int, p headgate.Policy, d headgate.Decision) {
	b.decisions[i] = d
	b.g.count(b.shards[i], p)
	if d.Allowed {
		b.from[i] = b.shards[i]
	}
}

// askShard decides all checks of a shard, by asking it if it can be, and reports whether they pass.
func (b *basket) askShard(s *shard) (passes bool, err error) {
	b.group = b.group[:0]
	var few [8]ask
	asks := few[:0]
	for i := range b.shards {
		if b.shards[i] == s {
			b.group = append(b.group, i)
			asks = append(asks, b.asks[i])
		}
	}
	g := b.g
	waited, how := g.enter(b.ctx, s)
	if how != itsTurn {
		return b.unasked(how)
	}
	failed := false
	defer func() { s.admission.leave(failed) }()
	if waited && g.denials != nil {
		if at, d, denied := g.news(asks, 0, wake{}); denied {
			b.decisions[b.group[at]] = d
			return false, nil
		}
	}
	at, d, since, how := g.line(b.ctx, s, asks)
	switch how {
	case itsTurn:
	case isDenied:
		b.decisions[b.group[at]] = d
		return false, nil
	default:
		return b.unasked(how)
	}
	defer g.leave(asks) // unless they have left already, should the store panic
	k, ok := g.begin(b.ctx, s, since, waited)
	if !ok {
		g.leave(asks)
		return b.settle()
	}
	asked := g.ready(asks)
	ds, err := b.call(k.ctx)
	switch g.end(&k, asks[0].check, err) {
	case answered:
		if err != nil {
			return false, err
		}
		g.learn(asks, asked, ds)
		for j, i := range b.group {
			b.decisions[i] = ds[j]
			if ds[j].Receipt.Units > 0 {
				b.from[i] = s
			}
			b.shards[i] = nil
		}
		return headgate.Allowed(ds), nil
	case ended:
		return false, b.ctx.Err()
	case starved:
		return b.unasked(isRefused)
	default:
		failed = true
		g.fail(asks)
		return b.settle()
	}
}

// unasked decides the checks of the group, which the store was not asked for.
func (b *basket) unasked(how standing) (passes bool, err error) {
	switch how {
	case hasEnded:
		return false, b.ctx.Err()
	case isRefused:
		b.g.counters.overloaded.Add(1)
		return false, headgate.ErrOverloaded
	default:
		return b.settle()
	}
}

// call asks the store for the checks of the group.
func (b *basket) call(ctx context.Context) ([]headgate.Decision, error) {
	if len(b.group) == 1 {
		d, err := b.g.inner.Take(ctx, b.checks[b.group[0]])
		return []headgate.Decision{d}, err
	}
	checks := b.checks
	if len(b.group) < len(b.checks) {
		checks = make([]headgate.Check, len(b.group))
		for j, i := range b.group {
			checks[j] = b.checks[i]
		}
	}
	ds, err := b.g.inner.TakeAll(ctx, checks, make([]headgate.Decision, 0, len(checks)))
	if err == nil && len(ds) != len(checks) {
		return nil, fmt.Errorf("guard: the store made %d decisions about %d checks", len(ds), len(checks))
	}
	return ds, err
}

// undo gives back what was taken, because not all was.
func (b *basket) undo() {
	for i, s := range b.from {
		d := &b.decisions[i]
		if s == nil || d.Receipt.Units == 0 {
			continue
		}
		switch {
		case d.Receipt.At >= 0:
			b.g.giveLater(s, &b.checks[i], d.Receipt)
		case d.Receipt.At < takenNowhere:
			b.g.giveLocally(b.ctx, &b.checks[i], d.Receipt)
		}
		d.Remaining += d.Receipt.Units
		d.Receipt, d.Delay = headgate.Receipt{}, 0
	}
}
