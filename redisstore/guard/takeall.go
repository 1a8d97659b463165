package guard

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore/guard/internal/admission"
)

// TakeAll takes all or none. See [headgate.Limiter], and the package comment for the order in which shards are asked.
func (g *Guard) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	if err := g.checkOpen(ctx); err != nil {
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
	b := batch{g: g, ctx: ctx, checks: checks, decisions: dst[before:]}
	if err := b.take(); err != nil {
		return dst[:before], err
	}
	return dst, nil
}

// denies reports whether the deny cache denies one of the checks, and fills in the decisions of those.
func (g *Guard) denies(checks []headgate.Check, decisions []headgate.Decision) bool {
	if g.denials == nil {
		return false
	}
	denied := false
	now := g.clock.micros()
	for i := range checks {
		c := &checks[i]
		if d, ok := g.denials.Lookup(g.denials.Hash(c), c, now); ok {
			decisions[i], denied = d, true
		}
	}
	if denied {
		g.counters.cacheHits.add()
	}
	return denied
}

// A batch is the checks of one TakeAll. A decision that was not made yet allows and has no Limit.
type batch struct {
	g         *Guard
	ctx       context.Context
	checks    []headgate.Check
	decisions []headgate.Decision

	pending []pendingCheck
	shards  []*shard // by check, nil after it was decided
	takenBy []*shard // by check, nil if nothing was taken for it
	group   []int    // the checks that are being decided
}

func (b *batch) take() error {
	var (
		pending [8]pendingCheck
		shards  [16]*shard
		group   [8]int
	)
	n := len(b.checks)
	b.pending, b.group = append(pending[:0], make([]pendingCheck, n)...), group[:0]
	room := append(shards[:0], make([]*shard, 2*n)...)
	b.shards, b.takenBy = room[:n], room[n:]
	for i := range b.checks {
		c := &b.checks[i]
		b.shards[i], b.pending[i].check = b.g.shardOf(c), c
		if b.g.denials != nil {
			b.pending[i].hash = b.g.denials.Hash(c)
		}
	}
	passes, err := b.decideDown()
	for i := 0; passes && err == nil && i < n; i++ {
		if b.shards[i] != nil {
			passes, err = b.takeFromShard(b.shards[i])
		}
	}
	if !passes || err != nil {
		b.refund()
	}
	return err
}

// decideDown decides the checks whose circuits are open by their policies, and reports whether they pass. This is done
// first, since it needs no call.
func (b *batch) decideDown() (passes bool, err error) {
	b.group = b.group[:0]
	for i, s := range b.shards {
		if s.circuit.open.Load() {
			b.group = append(b.group, i)
		}
	}
	return b.applyPolicies()
}

// applyPolicies decides the checks of the group by their policies, and reports whether they pass.
func (b *batch) applyPolicies() (passes bool, err error) {
	if len(b.group) == 0 {
		return true, nil
	}
	passes = true
	var locals []int
	for _, i := range b.group {
		c := &b.checks[i]
		d, denied := decideWithoutCounter(b.shards[i], c)
		switch {
		case denied:
			passes = false
			b.record(i, c.OnFailure, d)
		case c.OnFailure == headgate.Local:
			locals = append(locals, i)
		}
	}
	if passes && len(locals) > 0 {
		if passes, err = b.decideLocally(locals); err != nil {
			return false, err
		}
	}
	if passes {
		for _, i := range b.group {
			if c := &b.checks[i]; c.OnFailure == headgate.Open {
				b.record(i, headgate.Open, open(c))
			}
		}
	}
	for _, i := range b.group {
		b.shards[i] = nil
	}
	return passes, nil
}

// decideLocally decides checks by the local limiter.
func (b *batch) decideLocally(locals []int) (passes bool, err error) {
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
			b.record(i, headgate.Local, open(&b.checks[i]))
		}
		return true, nil
	}
	for j, i := range locals {
		b.record(i, headgate.Local, localDecision(b.shards[i], ds[j]))
	}
	return headgate.Allowed(ds), nil
}

// record records the decision of a policy.
func (b *batch) record(i int, p headgate.Policy, d headgate.Decision) {
	b.decisions[i] = d
	b.g.count(b.shards[i], p)
	if d.Allowed {
		b.takenBy[i] = b.shards[i]
	}
}

// takeFromShard decides all checks of a shard, by a call if possible, and reports whether they pass.
func (b *batch) takeFromShard(s *shard) (passes bool, err error) {
	b.group = b.group[:0]
	var array [8]pendingCheck
	pending := array[:0]
	for i := range b.shards {
		if b.shards[i] == s {
			b.group = append(b.group, i)
			pending = append(pending, b.pending[i])
		}
	}
	g := b.g
	queued, outcome := g.enter(b.ctx, s)
	if outcome != admission.Admitted {
		return b.notAdmitted(outcome)
	}
	broke := false
	defer func() { s.queue.Leave(broke) }()
	if queued && g.denials != nil {
		if i, d, denied := g.learnedDenial(pending, 0, admission.Wake{}); denied {
			b.decisions[b.group[i]] = d
			return false, nil
		}
	}
	turns := g.awaitTurns(b.ctx, s, pending)
	switch turns.outcome {
	case admission.Admitted:
	case admission.Denied:
		b.decisions[b.group[turns.denied]] = turns.decision
		return false, nil
	default:
		return b.notAdmitted(turns.outcome)
	}
	defer g.releaseTurns(pending) // in case the store panics; otherwise they have ended
	k, ok := g.begin(b.ctx, s, turns.since, queued)
	if !ok {
		g.releaseTurns(pending)
		return b.applyPolicies()
	}
	asked := g.markSent(pending)
	ds, err := b.call(k.ctx)
	switch g.end(&k, pending[0].check, err) {
	case responded:
		if err != nil {
			return false, err
		}
		g.learn(pending, asked, ds)
		for j, i := range b.group {
			b.decisions[i] = ds[j]
			if ds[j].Receipt.Units > 0 {
				b.takenBy[i] = s
			}
			b.shards[i] = nil
		}
		return headgate.Allowed(ds), nil
	case canceled:
		return false, b.ctx.Err()
	case starved:
		return b.notAdmitted(admission.Overloaded)
	default:
		broke = true
		g.failTurns(pending)
		return b.applyPolicies()
	}
}

// notAdmitted decides the checks of the group, which are not sent to the store.
func (b *batch) notAdmitted(outcome admission.Outcome) (passes bool, err error) {
	switch outcome {
	case admission.Canceled:
		return false, b.ctx.Err()
	case admission.Overloaded:
		b.g.counters.overloaded.Add(1)
		return false, headgate.ErrOverloaded
	default:
		return b.applyPolicies()
	}
}

// call sends the checks of the group to the store.
func (b *batch) call(ctx context.Context) ([]headgate.Decision, error) {
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

// refund returns what was taken, because another check was denied.
func (b *batch) refund() {
	for i, s := range b.takenBy {
		d := &b.decisions[i]
		if s == nil || d.Receipt.Units == 0 {
			continue
		}
		switch {
		case d.Receipt.At >= 0:
			b.g.refundLater(s, &b.checks[i], d.Receipt)
		case d.Receipt.At < takenNowhere:
			b.g.refundLocally(b.ctx, &b.checks[i], d.Receipt)
		}
		d.Remaining += d.Receipt.Units
		d.Receipt, d.Delay = headgate.Receipt{}, 0
	}
}
