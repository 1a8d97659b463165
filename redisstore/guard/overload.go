package guard

import (
	"time"

	"github.com/headgate/headgate"
)

// Reasons of Overloaded events.
const (
	// queueWait: it waited too long to be admitted, or too many others did.
	queueWait = "queue"
	// keyWait: another caller of its key got no response in time, because this process had not read it.
	keyWait = "key"
	// slowCall: this process did not send its call or did not read the response in time.
	slowCall = "call"
)

// maxDeadlines is how many deadlines a request waits for other callers of its key at most, if this process is too busy
// to read their responses.
const maxDeadlines = 10

// refuseOverloaded counts a request that is refused because of overload, sends an event at most once a second, and
// returns the error of the request.
func (g *Guard) refuseOverloaded(s *shard, reason string) error {
	g.counters.overloaded.Add(1)
	now, last := g.clock.Now().UnixNano(), s.overloadedAt.Load()
	if now-last >= int64(time.Second) && s.overloadedAt.CompareAndSwap(last, now) {
		g.send(Event{Kind: Overloaded, Shard: s.name, Err: headgate.ErrOverloaded, Reason: reason})
	}
	return headgate.ErrOverloaded
}

// busy reports whether a shard works and this process is too busy to send calls or to read responses.
func (g *Guard) busy(s *shard) bool {
	return s.circuit.failuresInRow.Load() == 0 && (s.queue.Waiting() > 0 || g.calls.HasUnread(s.name))
}

// waitLonger reports whether a request that is out of time goes on waiting, because this process is busy. It moves the
// begin of the wait.
func (g *Guard) waitLonger(s *shard, w *turnWait) bool {
	step := min(g.reserve(s), g.options.Deadline)
	if w.moved+step > (maxDeadlines-1)*g.options.Deadline || !g.busy(s) {
		return false
	}
	w.since = w.since.Add(step)
	w.moved += step
	return true
}

// skipStop moves the begin of a wait by the time in which this process did not run at all: it was stopped, or its
// machine was. late is how late the timer of the wait fired.
func (g *Guard) skipStop(w *turnWait, late time.Duration) {
	if late >= g.calls.MinStop() && !w.stopped {
		w.stopped = true
		w.since = w.since.Add(late)
	}
}
