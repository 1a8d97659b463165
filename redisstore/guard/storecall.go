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
	// queueDeadlines is how many deadlines a request may wait to be admitted.
	queueDeadlines = 8
	// queuedCallDeadlines is how many deadlines a call has whose request was queued. On an overloaded machine, a server
	// may not run for longer than a deadline, and is not down for that.
	queuedCallDeadlines = 5
)

// enter waits until a decision of a shard is admitted, and reports whether it was queued. If it is admitted, it must
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
	ctx    *deadline.Context // for the store
	caller context.Context
	shard  *shard
	began  time.Time
	short  bool // it had less than half of the deadline, so a timeout says nothing about the store
	permit permit
}

// begin prepares a call of a shard. since is when the caller began to wait for other callers of its key, or zero. The
// call gets the rest of the deadline, or queuedCallDeadlines deadlines if the request was queued. begin returns false
// if the circuit is open; otherwise end must be called.
func (g *Guard) begin(ctx context.Context, s *shard, since time.Time, queued bool) (storeCall, bool) {
	permit, ok := s.circuit.allow()
	if !ok {
		return storeCall{}, false
	}
	g.counters.calls.Add(1)
	k := storeCall{caller: ctx, shard: s, permit: permit, began: time.Now()}
	if since.IsZero() {
		since = k.began
	}
	k.short = k.began.Sub(since) > g.options.Deadline/2
	end := since.Add(g.options.Deadline)
	if queued {
		end = since.Add(queuedCallDeadlines * g.options.Deadline)
	}
	k.ctx = g.calls.Begin(ctx, s.name, k.began, end)
	return k, true
}

// end ends a call about a check, and returns what its error means.
func (g *Guard) end(k *storeCall, c *headgate.Check, err error) result {
	r, s, took := classify(k.caller, err), k.shard, time.Since(k.began)
	now := k.began.Add(took)
	switch r {
	case failed:
		timedOut := k.ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)
		if timedOut {
			g.counters.timeouts.Add(1)
		}
		if k.ctx.Starved() {
			r = starved
		}
		if timedOut && k.short || r == starved {
			s.circuit.report(k.permit, errIgnored, now)
			break
		}
		s.recordFailure(c, err)
		s.circuit.report(k.permit, errFailed, now)
	case canceled:
		s.circuit.report(k.permit, errIgnored, now)
	default:
		s.recordResponse(took)
		s.circuit.report(k.permit, nil, now)
	}
	s.queue.Adjust(took, g.options.Deadline)
	k.ctx.End()
	switch r {
	case refused:
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
