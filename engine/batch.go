package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// BatchSize is the number of requests in a Batch: enough to overlap the lookups of their counters, and few enough to
// fit into the L1 cache.
const BatchSize = 16

// An EachTaker is a Borrower that can decide several independent checks in one call, which is faster than one call for
// each. memstore.Store is an EachTaker.
type EachTaker interface {
	Borrower
	// TakeEach decides each check as Take does, in order. It writes the result of checks[i] to dst[i] or, if checks[i]
	// failed, to errs[i]. All three slices have the same length, and errs must contain only nil. TakeEach retains none of
	// them.
	TakeEach(ctx context.Context, checks []*headgate.Check, dst []*headgate.Decision, errs []error)
}

// A Batch decides several independent requests. This is faster than one DecideWith for each, because the store reads
// the counters of all requests together. The results are the same. The zero Batch is ready for use. Reuse a Batch, but
// only in one goroutine at a time.
//
//	for i := range requests {
//		b.Add(ctx, e, requests[i].subject, requests[i].options)
//	}
//	b.Decide(ctx)
//	for i := range b.Len() {
//		verdict, err := b.Verdict(i)
//	}
//	b.Clear()
type Batch struct {
	count    int
	verdicts [BatchSize]Verdict
	errs     [BatchSize]error
	start    time.Time // when the first request was added; zero if the decision is not timed

	// The fields below are for the pending requests, which one store of an engine will decide in one call. The arrays have
	// one element for each pending request.
	pending    int
	engine     *Engine
	storeIndex int8
	store      EachTaker       // nil if the store is not an EachTaker
	indexes    [BatchSize]int8 // indexes in verdicts
	checks     [BatchSize]*headgate.Check
	decisions  [BatchSize]*headgate.Decision // elements of the verdicts
	takeErrs   [BatchSize]error
}

// Len returns the number of requests, at most BatchSize.
func (b *Batch) Len() int { return b.count }

// Verdict returns the verdict on the i-th request, or the error that DecideWith would have returned. It is valid until
// Clear.
func (b *Batch) Verdict(i int) (*Verdict, error) { return &b.verdicts[i], b.errs[i] }

// Clear removes all requests.
func (b *Batch) Clear() { b.count = 0 }

// Add adds a request; the batch must not be full. Requests are decided in the order in which they are added. Add itself
// decides requests that need more than one call of a store. The subject is not used after Add returns.
func (b *Batch) Add(ctx context.Context, e *Engine, s rules.Subject, o *DecideOptions) {
	index := b.count
	b.count++
	b.errs[index] = b.add(ctx, e, s, o, index)
}

func (b *Batch) add(ctx context.Context, e *Engine, s rules.Subject, o *DecideOptions, index int) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	v := &b.verdicts[index]
	if index == 0 {
		b.start = time.Time{}
		// One decision of a timed batch is reported with its duration. So if batches are full, one decision in sampleEvery
		// is.
		if e.config.Observe != nil && e.config.Random()%(sampleEvery/BatchSize) == 0 {
			b.start = e.config.Clock.Now()
		}
	}
	v.reset(e)
	if err := o.validate(); err != nil {
		return err
	}
	if err := v.match(s, o.Rule); err != nil {
		return err
	}
	if v.rejectIfBusy(o) {
		if e.config.Observe != nil {
			e.config.Observe(v)
		}
		return nil
	}
	if v.hasSingleLimit() && !o.peeks() && b.selectStore(ctx, e, e.stores.forRule(v.matched[0].Rule)) {
		builder := checkBuilder{v: v, ctx: ctx, subject: s, cost: o.Cost, hasCost: o.HasCost, noWait: o.NoWait}
		builder.add(0)
		v.enforcedCount, v.plainAllow = 1, true
		v.decisions = append(v.decisions, headgate.Decision{})
		b.indexes[b.pending] = int8(index)
		b.checks[b.pending], b.decisions[b.pending] = &v.checks[0], &v.decisions[0]
		b.pending++
		return nil
	}
	b.Decide(ctx) // earlier requests come first
	if err := v.applyLimits(ctx, s, o); err != nil {
		v.reset(e)
		return err
	}
	if e.config.Observe != nil && !o.peeks() {
		e.config.Observe(v)
	}
	return nil
}

// hasSingleLimit reports whether one limit of one rule decides the request and nothing else is counted. It returns
// false if a denial would be counted, because the count could affect the next request of the batch.
func (v *Verdict) hasSingleLimit() bool {
	if len(v.matched) != 1 {
		return false
	}
	m := &v.matched[0]
	r := m.Rule
	return m.Effect == match.Limited && len(m.Limits) == 1 && r.Penalty == nil && !r.CountRejected &&
		r.OnLimit.Action != rules.Delay && r.OnLimit.Action != rules.Shadow
}

// selectStore selects the store for the following requests. If it is another store than before, it decides the pending
// requests first. It reports whether the store is an EachTaker.
func (b *Batch) selectStore(ctx context.Context, e *Engine, store int8) bool {
	if b.engine != e || b.storeIndex != store {
		b.Decide(ctx)
		b.engine, b.storeIndex = e, store
		b.store, _ = e.stores.list[store].Limiter.(EachTaker)
	}
	return b.store != nil
}

// Decide decides the requests that Add has not decided.
func (b *Batch) Decide(ctx context.Context) {
	n := b.pending
	if n == 0 {
		return
	}
	b.pending = 0
	var end func(*Verdict, error)
	takeCtx := ctx
	if trace := b.engine.config.Trace; trace != nil {
		takeCtx, end = trace(ctx, Taking)
	}
	b.store.TakeEach(takeCtx, b.checks[:n], b.decisions[:n], b.takeErrs[:n])
	if end != nil {
		end(nil, errors.Join(b.takeErrs[:n]...))
	}
	var duration time.Duration
	if !b.start.IsZero() {
		duration = max(b.engine.config.Clock.Since(b.start)/time.Duration(b.count), 1)
		b.start = time.Time{}
	}
	for i := range n {
		index := b.indexes[i]
		v := &b.verdicts[index]
		b.errs[index] = v.concludeSingle(ctx, b.takeErrs[i])
		b.takeErrs[i] = nil
		if b.errs[index] != nil {
			v.reset(v.engine)
			continue
		}
		if v.engine.config.Observe != nil {
			v.Duration, duration = duration, 0 // only one verdict reports the mean duration
			v.engine.config.Observe(v)
		}
	}
}

// concludeSingle sets the verdict on a request whose only check was decided or, with takeErr, failed.
func (v *Verdict) concludeSingle(ctx context.Context, takeErr error) error {
	passes := v.decisions[0].Allowed
	if takeErr != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(takeErr, headgate.ErrOverloaded) {
			return v.denyOverloaded(takeErr)
		}
		var err error
		takeErr = fmt.Errorf("engine: take from the %s store: %w", v.engine.storeName(v.infos[0].store), takeErr)
		passes, err = v.applyPolicies(ctx, 0, 1, takeErr)
		if err != nil {
			return err
		}
	}
	v.conclude(passes)
	v.holdsUnits = passes
	return nil
}
