package ledger

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// A ledger that pulls does not know how much peers consumed of a key that is new or was unused for a while. Such a key
// is unlearned until an exchange has returned the peers' notes.
//
// The first decision on an unlearned key uses this node's counter and does not wait. Later decisions that the counter
// would allow wait for the lookup, but at most MaxLookup, and not at all if lookups fail or too many decisions wait. So
// the consumption of peers counts in full from the second decision on, and decisions on a key in regular use never
// wait.

// MaxLookup is the longest wait for a lookup. It is enough for two round trips to a distant store, because the current
// exchange may have to end first.
const MaxLookup = 250 * time.Millisecond

// MaxWaiting is the maximum number of decisions that wait for lookups at once. Further decisions use this node's
// counter alone, and count in LookupsDropped.
const MaxWaiting = 4096

// lookupClass is the heat class of keys that decisions wait for. Its queue is sent first.
const lookupClass = classes - 1

// lookupState is the state of lookups in a ledger that pulls.
type lookupState struct {
	// startExchange starts an exchange of the keys in lookupClass. If it is nil, no decision waits.
	startExchange func()
	// maxAge is how long a key may be unused before it has to be looked up again, in µs.
	maxAge int64

	failedGroups atomic.Uint64 // key groups whose latest lookup failed or took too long: no decision waits for them
	waiting      atomic.Int64  // decisions that wait now

	done, waits, dropped atomic.Int64
}

// A Lookup reads from an exchange how much peers consumed of a key. Decisions wait for it.
type Lookup struct {
	key   Key
	ended chan struct{}
}

// StartLookups makes decisions wait for lookups. start must start an exchange of [Ledger.Lookups].
func (l *Ledger) StartLookups(start func()) { l.lookups.startExchange = start }

// checkLookup marks a record as unlearned if it was unused for too long. It returns the lookup that the decision on the
// record must wait for, or nil. The shard is locked.
func (l *Ledger) checkLookup(sh *shard, r *record, req *request, now moment) *Lookup {
	if !r.status.unlearned {
		if r.clock(now)-max(r.requestedAt, r.exchangedAt) <= l.lookups.maxAge || !r.plan.Shared {
			return nil
		}
		r.status.unlearned = true
		if req.peek {
			sh.push(r, lookupClass) // a peek does not queue the record in another way
		}
		return nil // the first decision does not wait
	}
	if !req.mayWait || l.lookups.startExchange == nil {
		return nil
	}
	if !req.peek && !r.peek(req.units, now).Allowed {
		return nil // the consumption of peers does not change a denial
	}
	failed := l.unreachable.Load() || l.lookups.failedGroups.Load()>>tally.GroupOf(&r.key)&1 == 1
	if failed || l.lookups.waiting.Load() >= MaxWaiting {
		l.lookups.dropped.Add(1)
		return nil
	}
	lookup := sh.lookups[r.key]
	if lookup == nil {
		lookup = &Lookup{key: r.key, ended: make(chan struct{})}
		if sh.lookups == nil {
			sh.lookups = make(map[tally.Key]*Lookup)
		}
		sh.lookups[r.key] = lookup
	}
	sh.push(r, lookupClass)
	return lookup
}

// noteRequest records that units of a key were requested, for calls that do not wait for a lookup.
func (l *Ledger) noteRequest(sh *shard, r *record, now moment) {
	if r.clock(now)-r.requestedAt > l.lookups.maxAge {
		l.checkLookup(sh, r, &request{peek: true}, now)
	}
	r.requestedAt = r.clock(now)
}

// endLookup ends the wait for a lookup, whether it succeeded or not.
func (sh *shard) endLookup(r *record, learned bool) {
	if lookup := sh.lookups[r.key]; lookup != nil {
		close(lookup.ended)
		delete(sh.lookups, r.key)
	}
	if learned {
		r.status.unlearned = false
	}
}

// Await waits until the lookups end or MaxLookup has passed. It returns an error if ctx ends first.
func (l *Ledger) Await(ctx context.Context, lookups ...*Lookup) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	state := &l.lookups
	state.waiting.Add(1)
	defer state.waiting.Add(-1)
	state.waits.Add(1)
	state.startExchange()
	expired := make(chan struct{})
	timer := l.clock.AfterFunc(MaxLookup, func() { close(expired) })
	defer timer.Stop()
	for _, lookup := range lookups {
		if s, ok := l.clock.Clock.(clock.Scheduler); ok { // a simulator runs other goroutines before this one may block
			s.Wait(func() bool { return isClosed(lookup.ended) || isClosed(expired) || ctx.Err() != nil })
		}
		select {
		case <-lookup.ended:
		case <-expired:
			state.dropped.Add(1)
			l.LookupGroupsDone(0, 1<<tally.GroupOf(&lookup.key))
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

// ExchangeDone ends the lookups of exchanged tallies. missed has the indices of tallies that were not exchanged. Their
// keys stay unlearned.
func (l *Ledger) ExchangeDone(tallies []tally.Tally, missed []int) {
	var exchanged, failed uint64
	for i := range tallies {
		exchanged |= 1 << tally.GroupOf(&tallies[i].Key)
	}
	for _, i := range missed {
		t := &tallies[i]
		failed |= 1 << tally.GroupOf(&t.Key)
		l.LookupDone(t, false)
		t.Unlearned = false
	}
	l.LookupGroupsDone(exchanged, failed)
	for i := range tallies {
		l.LookupDone(&tallies[i], true)
	}
}

// LookupGroupsDone records which key groups were exchanged, and which groups failed. Both have one bit per group.
func (l *Ledger) LookupGroupsDone(exchanged, failed uint64) {
	l.lookups.failedGroups.Or(failed)
	l.lookups.failedGroups.And(^exchanged | failed)
}

// LookupDone ends the lookup of a key that was unlearned. The key stays unlearned if learned is false, because the
// exchange failed.
func (l *Ledger) LookupDone(t *tally.Tally, learned bool) {
	if !t.Unlearned {
		return
	}
	if learned {
		l.lookups.done.Add(1)
	}
	sh, r := l.lockRecord(&t.Key)
	defer sh.mu.Unlock()
	if r != nil && r.addedAt == t.Added {
		sh.endLookup(r, learned)
	}
}

// LookupAgain queues a key for another lookup if a decision waits for one. It reports whether that is so.
func (l *Ledger) LookupAgain(t *tally.Tally) bool {
	sh, r := l.lockRecord(&t.Key)
	defer sh.mu.Unlock()
	if r == nil || r.addedAt != t.Added || sh.lookups[t.Key] == nil {
		return false
	}
	sh.push(r, lookupClass)
	return true
}
