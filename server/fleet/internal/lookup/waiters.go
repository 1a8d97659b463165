package lookup

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// MaxWait is the longest wait for a lookup. It is enough for two round trips to a distant store, because the current
// exchange may have to end first.
const MaxWait = 250 * time.Millisecond

// MaxWaiting is the maximum number of decisions that wait for lookups at once.
const MaxWaiting = 4096

// A Lookup reads from an exchange how much peers consumed of a key. Decisions wait for it.
type Lookup struct {
	group int
	ended chan struct{}
}

// New returns a lookup of a key that has not ended.
func New(k *tally.Key) *Lookup {
	return &Lookup{group: tally.GroupOf(k), ended: make(chan struct{})}
}

// End ends the lookup. It must be called once.
func (l *Lookup) End() { close(l.ended) }

// Waiters manages the decisions that wait for lookups. With the zero value, no decision waits. It is safe for
// concurrent use.
type Waiters struct {
	// StartExchange starts an exchange of the keys that decisions wait for. If it is nil, no decision waits. It must be
	// set before the first decision.
	StartExchange func()

	failedGroups atomic.Uint64 // key groups whose latest lookup failed or took too long; no decision waits for these
	waiting      atomic.Int64  // decisions that wait now

	waits, dropped atomic.Int64
}

// Admit reports whether one more decision may wait for a lookup of a key. Otherwise it counts the decision as dropped.
func (w *Waiters) Admit(k *tally.Key) bool {
	if w.failedGroups.Load()>>tally.GroupOf(k)&1 == 1 || w.waiting.Load() >= MaxWaiting {
		w.CountDropped()
		return false
	}
	return true
}

// CountDropped counts a decision that uses only this node's counter, because it cannot wait.
func (w *Waiters) CountDropped() { w.dropped.Add(1) }

// Await waits until the lookups end or MaxWait has passed. It returns an error if ctx ends first.
func (w *Waiters) Await(ctx context.Context, c clock.Stopwatch, lookups []*Lookup) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	w.waiting.Add(1)
	defer w.waiting.Add(-1)
	w.waits.Add(1)
	w.StartExchange()
	expired := make(chan struct{})
	timer := c.AfterFunc(MaxWait, func() { close(expired) })
	defer timer.Stop()
	for _, l := range lookups {
		if s, ok := c.Clock.(clock.Scheduler); ok { // a simulator runs other goroutines before this one may block
			s.Wait(func() bool { return isClosed(l.ended) || isClosed(expired) || ctx.Err() != nil })
		}
		select {
		case <-l.ended:
		case <-expired:
			w.CountDropped()
			w.GroupsDone(0, 1<<l.group)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// GroupsDone records which key groups were exchanged, and which groups failed. Both have one bit per group.
func (w *Waiters) GroupsDone(exchanged, failed uint64) {
	w.failedGroups.Or(failed)
	w.failedGroups.And(^exchanged | failed)
}

// Waits returns the number of decisions that waited.
func (w *Waiters) Waits() int64 { return w.waits.Load() }

// Dropped returns the number of decisions that used only this node's counter, because too many decisions were waiting,
// or because the exchange failed or did not respond in time.
func (w *Waiters) Dropped() int64 { return w.dropped.Load() }
