package guard

import (
	"context"
	"errors"

	"github.com/headgate/headgate"
)

// A call is one call of the store.
type call struct {
	ctx    context.Context // what the store is given
	caller context.Context
	cancel context.CancelFunc
	shard  *shard
	done   func(error)
}

// begin prepares a call of a shard, if its circuit is closed. The call must be ended.
func (g *Guard) begin(ctx context.Context, s *shard) (call, bool) {
	done, ok := s.allow()
	if !ok {
		return call{}, false
	}
	g.counters.calls.Add(1)
	k := call{caller: ctx, shard: s, done: done}
	k.ctx, k.cancel = context.WithTimeout(ctx, g.options.Deadline)
	return k, true
}

// end says what came of a call about a check.
func (g *Guard) end(k *call, c *headgate.Check, err error) verdict {
	v, s := judge(k.caller, err), k.shard
	switch v {
	case failed:
		if k.ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
			g.counters.timeouts.Add(1)
		}
		s.blame(c, err)
		k.done(errFailed)
	case ended:
		k.done(errNoMind)
	default:
		s.praise()
		k.done(nil)
	}
	k.cancel()
	if v == failed || v == refused {
		g.counters.failures.Add(1)
		if !s.down.Load() {
			g.warn(s, err)
		}
	}
	return v
}
