package guard

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore/guard/internal/admission"
	"github.com/headgate/headgate/redisstore/guard/internal/deadline"
)

const (
	// A request waits for at most queueDeadlines deadlines to be admitted.
	queueDeadlines = 8
	// The call of a queued request may take queuedCallDeadlines deadlines. On an overloaded machine, a server may not run
	// for longer than a deadline, although it is not down.
	queuedCallDeadlines = 5
)

// enter waits until a decision of a shard is admitted, and reports whether it was queued. An admitted decision must
// leave the queue of the shard.
func (g *Guard) enter(ctx context.Context, s *shard) (queued bool, outcome admission.Outcome) {
	if s.queue.Enter() {
		return false, admission.Admitted
	}
	g.counters.queued.Add(1)
	return true, s.queue.Wait(ctx, queueDeadlines*g.options.Deadline)
}

// A storeCall is one call of the store.
type storeCall struct {
	ctx        *deadline.Context // for the store
	caller     context.Context
	shard      *shard
	began      time.Time
	short      bool  // the call had less than half of the deadline, so a timeout says nothing about the store
	generation int64 // of the circuit when the call began
}

// begin prepares a call of a shard. since is when the caller began to wait for other callers of its key, or zero. The
// call gets the rest of the deadline, or queuedCallDeadlines deadlines if the request was queued. begin returns false
// if the circuit is open; otherwise end must be called.
func (g *Guard) begin(ctx context.Context, s *shard, since time.Time, queued bool) (storeCall, bool) {
	generation := s.circuit.generation.Load()
	if s.circuit.open.Load() {
		return storeCall{}, false
	}
	g.counters.calls.Add(1)
	call := storeCall{caller: ctx, shard: s, generation: generation, began: g.clock.Now()}
	if since.IsZero() {
		since = call.began
	}
	call.short = call.began.Sub(since) > g.options.Deadline/2
	end := since.Add(g.options.Deadline)
	if queued {
		end = since.Add(queuedCallDeadlines * g.options.Deadline)
	}
	call.ctx = g.calls.Begin(ctx, s.name, call.began, end)
	return call, true
}

// withDeadline returns a context for a call of a shard that ends after the deadline. Its End must be called.
func (g *Guard) withDeadline(ctx context.Context, shard string) *deadline.Context {
	now := g.clock.Now()
	return g.calls.Begin(ctx, shard, now, now.Add(g.options.Deadline))
}

// end ends a call about a check, and records its result. err is the error of the call.
func (g *Guard) end(call *storeCall, c *headgate.Check, err error) result {
	r, s, took := classify(call.caller, err), call.shard, g.clock.Since(call.began)
	now := call.began.Add(took)
	switch r {
	case failed:
		timedOut := call.ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)
		if timedOut {
			g.counters.timeouts.Add(1)
		}
		if call.ctx.Starved() {
			r = starved
		}
		if timedOut && call.short || r == starved {
			break
		}
		s.recordFailure(c, err)
		if s.circuit.report(call.generation, now, false) {
			g.openCircuit(s, call.generation)
		}
	case canceled:
	default:
		s.recordResponse(took)
		s.circuit.report(call.generation, now, true)
	}
	s.queue.Adjust(took, g.options.Deadline)
	if g.options.OnCall != nil {
		g.options.OnCall(s.name, took)
	}
	call.ctx.End()
	switch r {
	case rejected:
		g.counters.failures.Add(1)
		g.recordRefusal(s, c, err, now)
	case failed:
		g.counters.failures.Add(1)
		if !s.circuit.open.Load() {
			g.reportFailing(s, err)
		}
	}
	return r
}

// An operation is a call of the store about one check. It does not wait for other callers of the same key.
type operation struct {
	name   string // for errors
	shard  *shard
	check  *headgate.Check
	send   func(context.Context) error
	queued bool // it has waited in the queue of the shard
}

// unavailable returns the error of an operation that failed with err.
func (o *operation) unavailable(err error, sent bool) error {
	return &Error{Op: o.name, Shard: o.shard.name, Err: err, Sent: sent}
}

// call sends an operation to its shard. If the shard does not respond, the error is an *Error.
func (g *Guard) call(ctx context.Context, o operation) (result, error) {
	call, ok := g.begin(ctx, o.shard, time.Time{}, o.queued)
	if !ok {
		return failed, o.unavailable(o.shard.lastErr(), false)
	}
	err := o.send(call.ctx)
	switch r := g.end(&call, o.check, err); r {
	case responded:
		return r, err
	case canceled:
		return r, ctx.Err()
	default:
		return r, o.unavailable(err, true)
	}
}

// callQueued is like call, but first waits in the queue of the shard while too many decisions are active. The result
// starved means that the operation was refused because of overload.
func (g *Guard) callQueued(ctx context.Context, o operation) (r result, err error) {
	var outcome admission.Outcome
	o.queued, outcome = g.enter(ctx, o.shard)
	reason := slowCall
	switch outcome {
	case admission.Admitted:
		defer o.shard.queue.Leave()
		r, err = g.call(ctx, o)
	case admission.Canceled:
		return canceled, ctx.Err()
	case admission.Overloaded:
		r, reason = starved, queueWait
	default:
		return failed, o.unavailable(o.shard.lastErr(), false)
	}
	if r == starved {
		return r, g.refuseOverloaded(o.shard, reason)
	}
	return r, err
}
