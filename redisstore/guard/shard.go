package guard

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore/guard/internal/admission"
)

// A shard is a part of the store that fails as one: a server, or the whole store if it is not Sharded.
type shard struct {
	name    string
	circuit circuit
	queue   *admission.Queue

	latency     atomic.Int64 // moving average of response times in ns, or 0
	responded   atomic.Bool  // at least once
	used        atomic.Bool  // since the last check
	degraded    atomic.Int64 // decisions by policies since the circuit opened
	reportedAt  atomic.Int64 // when the last Failing event was sent, in ns since 1970
	lastFailure atomic.Pointer[failure]
	refusal     atomic.Pointer[refusal] // nil while the shard decides all checks
}

// A failure is a failed call.
type failure struct {
	check headgate.Check
	err   error
}

func (g *Guard) newShard(name string) *shard {
	s := &shard{name: name, queue: admission.NewQueue()}
	s.circuit.init(name, func() { g.onOpen(s) }, func() { g.onClose(s) })
	return s
}

// onOpen is called when the circuit of a shard opens, with the breaker locked.
func (g *Guard) onOpen(s *shard) {
	now := time.Now()
	wait := firstProbe
	if now.UnixNano()-s.circuit.closedAt.Load() < int64(time.Second) {
		wait = maxProbeDelay // probes succeed although calls fail
	}
	s.degraded.Store(0)
	s.used.Store(true)
	s.circuit.setOpen(now, now.Add(wait))
	s.queue.Dismiss(admission.Unavailable)
	g.send(Event{Kind: Opened, Shard: s.name, Err: s.lastErr(), Started: !s.responded.Load()})
	g.background.start(func() { g.probeUntilUp(s, wait) })
}

// onClose is called when the circuit of a shard closes, with the breaker locked.
func (g *Guard) onClose(s *shard) {
	down := s.circuit.setClosed(time.Now())
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
	now, last := time.Now().UnixNano(), s.reportedAt.Load()
	if now-last < int64(time.Second) || !s.reportedAt.CompareAndSwap(last, now) {
		return
	}
	g.send(Event{Kind: Failing, Shard: s.name, Err: err})
}
