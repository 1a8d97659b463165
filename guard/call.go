package guard

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate"
)

// A call is one call of the store.
type call struct {
	ctx    *term // what the store is given
	caller context.Context
	shard  *shard
	began  time.Time
	hasty  bool // it had less than half the deadline: that it ran out says nothing about the store
	leave  leave
}

// begin prepares a call of a shard for a caller that has waited for others of its key since a time, or not at all if
// that is zero. It is given the rest of the deadline, and queuedPatience deadlines if it was queued. It reports whether
// the circuit is closed; if so, the call must be ended.
func (g *Guard) begin(ctx context.Context, s *shard, since time.Time, queued bool) (call, bool) {
	leave, ok := s.allow()
	if !ok {
		return call{}, false
	}
	g.counters.calls.Add(1)
	k := call{caller: ctx, shard: s, leave: leave, began: time.Now()}
	if since.IsZero() {
		since = k.began
	}
	k.hasty = k.began.Sub(since) > g.options.Deadline/2
	deadline := since.Add(g.options.Deadline)
	if queued {
		deadline = since.Add(queuedPatience * g.options.Deadline)
	}
	k.ctx = g.terms.begin(ctx, s, k.began, deadline)
	return k, true
}

// end says what came of a call about a check.
func (g *Guard) end(k *call, c *headgate.Check, err error) verdict {
	v, s, took := judge(k.caller, err), k.shard, time.Since(k.began)
	now := k.began.Add(took)
	switch v {
	case failed:
		timedOut := k.ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)
		if timedOut {
			g.counters.timeouts.Add(1)
		}
		if k.ctx.state.Load() == termLags {
			v = starved
		}
		if timedOut && k.hasty || v == starved {
			s.told(k.leave, errNoMind, now)
			break
		}
		s.blame(c, err)
		s.told(k.leave, errFailed, now)
	case ended:
		s.told(k.leave, errNoMind, now)
	default:
		s.praise(took)
		s.told(k.leave, nil, now)
	}
	s.admission.adjust(took, g.options.Deadline)
	g.terms.end(k.ctx)
	switch v {
	case refused:
		g.counters.failures.Add(1)
		g.refused(s, c, err, now)
	case failed:
		g.counters.failures.Add(1)
		if !s.down.Load() {
			g.warn(s, err)
		}
	}
	return v
}
