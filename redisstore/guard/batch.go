package guard

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore/guard/internal/admission"
)

// A batch holds the checks of one Take or TakeAll after the deny cache has denied none of them. Batches are pooled:
// otherwise they would be most of the guard's allocations.
type batch struct {
	guard     *Guard
	ctx       context.Context
	checks    []headgate.Check
	decisions []headgate.Decision // until a check is decided, its decision is Allowed and has no Limit

	shards  []*shard       // for each check its shard, or nil after it was decided
	takenBy []*shard       // for each check the shard that took units for it, or nil
	group   []int          // indexes of the checks that are being decided together
	pending []pendingCheck // the same checks, while they are sent to the store
	results []headgate.Decision

	oneCheck    [1]headgate.Check // of Take
	oneDecision [1]headgate.Decision
}

func (g *Guard) newBatch(ctx context.Context) *batch {
	b, ok := g.batches.Get().(*batch)
	if !ok {
		b = &batch{guard: g}
	}
	b.ctx = ctx
	return b
}

// release returns the batch to the pool, without pointers into the memory of callers.
func (b *batch) release() {
	clear(b.pending)
	*b = batch{
		guard: b.guard, shards: b.shards[:0], takenBy: b.takenBy[:0], group: b.group[:0], pending: b.pending[:0],
		results: b.results[:0],
	}
	b.guard.batches.Put(b)
}

// take decides the checks shard by shard. If one is denied, take refunds the units of the others.
func (b *batch) take() error {
	for i := range b.checks {
		b.shards, b.takenBy = append(b.shards, b.guard.shardOf(&b.checks[i])), append(b.takenBy, nil)
	}
	passes, err := b.decideWithoutStore()
	for i := 0; passes && err == nil && i < len(b.checks); i++ {
		if b.shards[i] != nil {
			passes, err = b.takeFromShard(b.shards[i])
		}
	}
	if !passes || err != nil {
		b.refund()
	}
	return err
}

// decideWithoutStore decides the checks whose circuits are open by their policies, and reports whether they pass. It is
// called before any store, because a policy may deny.
func (b *batch) decideWithoutStore() (passes bool, err error) {
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
				b.record(i, headgate.Open, failOpen(c))
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
		checks[j] = b.guard.localCheck(&b.checks[i])
	}
	ds, err := b.guard.local.TakeAll(b.ctx, checks, nil)
	if err == nil && len(ds) != len(checks) {
		err = fmt.Errorf("guard: the local limiter made %d decisions about %d checks", len(ds), len(checks))
	}
	if err != nil {
		if b.ctx.Err() != nil {
			return false, b.ctx.Err()
		}
		for _, i := range locals {
			b.guard.counters.localFailures.Add(1)
			b.record(i, headgate.Local, failOpen(&b.checks[i]))
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
	b.guard.count(b.shards[i], p)
	if d.Allowed {
		b.takenBy[i] = b.shards[i]
	}
}

// takeFromShard decides all checks of a shard and reports whether they pass. It calls the store if it can; otherwise
// policies decide.
func (b *batch) takeFromShard(s *shard) (passes bool, err error) {
	g := b.guard
	b.selectChecks(s)
	queued, outcome := g.enter(b.ctx, s)
	if outcome != admission.Admitted {
		return b.notAdmitted(s, outcome, queueWait)
	}
	defer s.queue.Leave()
	if queued && g.denials != nil {
		if i, d, denied := g.learnedDenial(b.pending, 0, admission.Wake{}); denied {
			b.decisions[b.group[i]] = d
			return false, nil
		}
	}
	turns := g.awaitTurns(b.ctx, s, b.pending)
	switch turns.outcome {
	case admission.Admitted:
	case admission.Denied:
		b.decisions[b.group[turns.denied]] = turns.decision
		return false, nil
	default:
		return b.notAdmitted(s, turns.outcome, keyWait)
	}
	defer g.releaseTurns(b.pending) // does nothing for turns that have already ended
	call, ok := g.begin(b.ctx, s, turns.since, queued)
	if !ok {
		g.releaseTurns(b.pending)
		return b.applyPolicies()
	}
	calledAt := g.markSent(b.pending)
	err = b.send(call.ctx)
	switch g.end(&call, b.pending[0].check, err) {
	case responded:
		if err != nil {
			return false, err
		}
		g.learn(b.pending, calledAt, b.results)
		return b.recordResults(s), nil
	case canceled:
		return false, b.ctx.Err()
	case starved:
		return b.notAdmitted(s, admission.Overloaded, slowCall)
	default:
		g.failTurns(b.pending)
		return b.applyPolicies()
	}
}

// selectChecks makes the undecided checks of a shard the group.
func (b *batch) selectChecks(s *shard) {
	b.group, b.pending = b.group[:0], b.pending[:0]
	for i := range b.checks {
		if b.shards[i] != s {
			continue
		}
		p := pendingCheck{check: &b.checks[i]}
		if b.guard.denials != nil {
			p.hash = b.guard.denials.Hash(p.check)
		}
		b.group, b.pending = append(b.group, i), append(b.pending, p)
	}
}

// recordResults records the store's decisions about the group, and reports whether they pass.
func (b *batch) recordResults(s *shard) bool {
	for j, i := range b.group {
		b.decisions[i] = b.results[j]
		if b.results[j].Receipt.Units > 0 {
			b.takenBy[i] = s
		}
		b.shards[i] = nil
	}
	return headgate.Allowed(b.results)
}

// notAdmitted decides the checks of the group if the store was not called. reason is the Event.Reason for the outcome
// Overloaded.
func (b *batch) notAdmitted(s *shard, outcome admission.Outcome, reason string) (passes bool, err error) {
	switch outcome {
	case admission.Canceled:
		return false, b.ctx.Err()
	case admission.Overloaded:
		return false, b.guard.refuseOverloaded(s, reason)
	default:
		return b.applyPolicies()
	}
}

// send sends the checks of the group to the store, and sets the results.
func (b *batch) send(ctx context.Context) error {
	b.results = b.results[:0]
	if len(b.group) == 1 {
		d, err := b.guard.inner.Take(ctx, b.checks[b.group[0]])
		b.results = append(b.results, d)
		return err
	}
	checks := b.checks
	if len(b.group) < len(b.checks) {
		checks = make([]headgate.Check, len(b.group))
		for j, i := range b.group {
			checks[j] = b.checks[i]
		}
	}
	var err error
	b.results, err = b.guard.inner.TakeAll(ctx, checks, b.results)
	if err == nil && len(b.results) != len(checks) {
		return fmt.Errorf("guard: the store made %d decisions about %d checks", len(b.results), len(checks))
	}
	return err
}

// refund gives back all units that were taken, because another check was denied.
func (b *batch) refund() {
	for i, s := range b.takenBy {
		d := &b.decisions[i]
		if s == nil || d.Receipt.Units == 0 {
			continue
		}
		switch {
		case d.Receipt.At >= 0:
			b.guard.refundLater(s, &b.checks[i], d.Receipt)
		case d.Receipt.At < atNowhere:
			b.guard.refundLocally(b.ctx, &b.checks[i], d.Receipt)
		}
		d.Remaining += d.Receipt.Units
		d.Receipt, d.Delay = headgate.Receipt{}, 0
	}
}
