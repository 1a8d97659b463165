package guard

import (
	"time"

	"github.com/headgate/headgate"
)

// Reasons of Overloaded events.
const (
	// queueWait: the request waited too long to be admitted, or too many other requests waited.
	queueWait = "queue"
	// keyWait: another caller of the request's key got no response in time, because this process had not read it.
	keyWait = "key"
	// slowCall: this process did not send its call or did not read the response in time.
	slowCall = "call"
)

// maxDeadlines is the maximum number of deadlines for which a request waits for other callers of its key. Usually it
// waits for less than one. It waits longer if this process is too busy to read their responses.
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

// busy reports whether a shard works, but this process is too busy to send calls or to read responses.
func (g *Guard) busy(s *shard) bool {
	return !s.circuit.failing() &&
		(s.queue.Waiting() > 0 || g.calls.HasUnread(s.name) || g.calls.HasExtended(s.name))
}

// extendWait gives a request whose time is over enough time for its own call. It does so if this process is busy, or if
// it was busy and another caller of the request's keys has got a response since. It moves the beginning of the wait. It
// returns false if the request must not wait longer.
func (g *Guard) extendWait(s *shard, w *turnWait) bool {
	step := min(g.reservedTime(s), g.options.Deadline) - g.timeLeft(w)
	works := w.extended > 0 && w.responded || g.busy(s)
	if !works || w.extended+step > g.maxExtension() {
		return false
	}
	w.since = w.since.Add(step)
	w.extended += step
	return true
}

// excludeStalls excludes the time for which this process did not run from a wait, by moving the beginning of the wait.
// A long stall is not overload: this process or its machine was stopped. It is excluded in full, but only once.
func (g *Guard) excludeStalls(w *turnWait) {
	stalled := g.calls.Stalled()
	excluded := stalled - w.stalled
	w.stalled = stalled
	if excluded >= g.calls.MinStop() && !w.wasStopped {
		w.wasStopped = true
	} else {
		excluded = min(excluded, g.maxExtension()-w.extended)
		w.extended += excluded
	}
	w.since = w.since.Add(excluded)
}

// maxExtension returns how far the beginning of a wait may be moved. Time for which this process was stopped is not
// included.
func (g *Guard) maxExtension() time.Duration { return (maxDeadlines - 1) * g.options.Deadline }
