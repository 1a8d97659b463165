package guard

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore/guard/internal/admission"
)

// A shard is a part of the store that fails independently of other parts, such as a server. A store that is not Sharded
// is one shard.
type shard struct {
	name    string
	circuit *circuit
	queue   *admission.Queue

	latency      atomic.Int64 // moving average of response times in ns, or 0
	responded    atomic.Bool  // the shard has responded at least once
	used         atomic.Bool  // the shard was used since this flag was last cleared
	degraded     atomic.Int64 // decisions by policies since the circuit opened
	reportedAt   atomic.Int64 // when the last Failing event was sent, in ns since 1970
	overloadedAt atomic.Int64 // when the last Overloaded event was sent, in ns since 1970
	lastFailure  atomic.Pointer[failure]
	refusal      atomic.Pointer[refusal] // nil while the shard decides all checks
}

// A failure is a failed call.
type failure struct {
	check headgate.Check
	err   error
}

func (g *Guard) newShard(name string) *shard {
	c := newCircuit(g.clock)
	return &shard{name: name, circuit: c, queue: admission.NewQueue(g.clock, c.failing)}
}

// openCircuit opens the circuit of a shard and starts to probe the shard. It does nothing if the circuit has changed
// since the given generation.
func (g *Guard) openCircuit(s *shard, generation int64) {
	now, wait := g.clock.Now(), firstDelay
	if generation > 0 && now.UnixNano()-s.circuit.changedAt.Load() < int64(time.Second) {
		wait = maxProbeDelay // the circuit has just closed, so probes succeed although calls fail
	}
	if !s.circuit.tryOpen(generation, now, now.Add(wait)) {
		return
	}
	s.degraded.Store(0)
	s.used.Store(true)
	s.queue.Dismiss(admission.Unavailable)
	g.send(Event{Kind: Opened, Shard: s.name, Err: s.lastErr(), NeverResponded: !s.responded.Load()})
	g.background.Start(func() { g.probeUntilUp(s, wait) })
}

// closeCircuit closes the circuit of a shard, which has responded to a probe.
func (g *Guard) closeCircuit(s *shard) {
	down := s.circuit.close(g.clock.Now())
	s.responded.Store(true)
	g.send(Event{Kind: Recovered, Shard: s.name, Down: down, Degraded: s.degraded.Load()})
}

// recordFailure records a failed call.
func (s *shard) recordFailure(c *headgate.Check, err error) {
	s.circuit.failuresInRow.Add(1)
	s.lastFailure.Store(&failure{check: *c, err: err})
}

// recordResponse records a response and how long it took.
func (s *shard) recordResponse(took time.Duration) {
	old := s.latency.Load()
	if old == 0 {
		old = int64(took)
	}
	s.latency.Store(max(1, old+(int64(took)-old)/8)) // losing one of two concurrent updates does no harm
	if s.circuit.failuresInRow.Load() != 0 {
		s.circuit.failuresInRow.Store(0)
	}
	if !s.responded.Load() {
		s.responded.Store(true)
	}
}

func (s *shard) lastErr() error {
	if f := s.lastFailure.Load(); f != nil {
		return f.err
	}
	return nil
}

// reportFailing sends a Failing event, at most once a second.
func (g *Guard) reportFailing(s *shard, err error) {
	now, last := g.clock.Now().UnixNano(), s.reportedAt.Load()
	if now-last < int64(time.Second) || !s.reportedAt.CompareAndSwap(last, now) {
		return
	}
	g.send(Event{Kind: Failing, Shard: s.name, Err: err})
}
