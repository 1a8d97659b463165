package ledger

import (
	"context"

	"github.com/headgate/headgate/server/fleet/internal/lookup"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// A ledger that pulls does not know how much peers consumed of a key that is new or was unused for a while, until an
// exchange has returned the peers' notes. Until then, recordStatus.peersUnknown is set.
//
// The first decision on such a key uses this node's counter and does not wait. Later decisions that the counter
// would allow wait for the lookup, for at most [lookup.MaxWait]. They do not wait if lookups fail or if too many
// decisions wait already. So all consumption of peers counts from the second decision on, and decisions on a key in
// regular use never wait.

// lookupClass is the heat class of keys that decisions wait for. Its queue is sent first.
const lookupClass = classes - 1

// StartLookups makes decisions wait for lookups. start must start an exchange of [Ledger.Lookups].
func (l *Ledger) StartLookups(start func()) { l.lookups.StartExchange = start }

// checkLookup sets peersUnknown of a record that was unused for too long. It returns the lookup that the decision on the
// record must wait for, or nil. The shard is locked.
func (l *Ledger) checkLookup(sh *shard, r *record, req *request, now moment) *lookup.Lookup {
	if !r.status.peersUnknown {
		if r.time(now)-max(r.requestedAt, r.exchangedAt) <= l.lookupAfter || !r.plan.Shared {
			return nil
		}
		r.status.peersUnknown = true
		if req.peek {
			sh.push(r, lookupClass) // other requests queue the record themselves
		}
		return nil // the first decision does not wait
	}
	if !req.mayWait || l.lookups.StartExchange == nil {
		return nil
	}
	if !req.peek && !r.peek(req.units, now).Allowed {
		return nil // the check is denied, whatever peers consumed
	}
	if l.unreachable.All() {
		l.lookups.CountDropped()
		return nil
	}
	if !l.lookups.Admit(&r.key) {
		return nil
	}
	wait := sh.lookups[r.key]
	if wait == nil {
		wait = lookup.New(&r.key)
		if sh.lookups == nil {
			sh.lookups = make(map[tally.Key]*lookup.Lookup)
		}
		sh.lookups[r.key] = wait
	}
	sh.push(r, lookupClass)
	return wait
}

// noteRequest records that units of a key were requested, for calls that do not wait for a lookup.
func (l *Ledger) noteRequest(sh *shard, r *record, now moment) {
	l.checkLookup(sh, r, &request{peek: true}, now)
	r.requestedAt = r.time(now)
}

// endLookup ends the wait for a lookup, whether it succeeded or not.
func (sh *shard) endLookup(r *record, learned bool) {
	if wait := sh.lookups[r.key]; wait != nil {
		wait.End()
		delete(sh.lookups, r.key)
	}
	if learned {
		r.status.peersUnknown = false
	}
}

// Await waits until the lookups end or [lookup.MaxWait] has passed. It returns an error if ctx ends first.
func (l *Ledger) Await(ctx context.Context, lookups ...*lookup.Lookup) error {
	return l.lookups.Await(ctx, l.clock, lookups)
}

// ExchangeDone ends the lookups of exchanged tallies. missed has the indices of tallies that were not exchanged. Their
// keys still have to be looked up.
func (l *Ledger) ExchangeDone(tallies []tally.Tally, missed []int) {
	var exchanged, failed uint64
	for i := range tallies {
		exchanged |= 1 << tally.GroupOf(&tallies[i].Key)
	}
	for _, i := range missed {
		t := &tallies[i]
		failed |= 1 << tally.GroupOf(&t.Key)
		l.LookupDone(t, false)
		t.PeersUnknown = false
	}
	l.lookups.GroupsDone(exchanged, failed)
	for i := range tallies {
		l.LookupDone(&tallies[i], true)
	}
}

// LookupGroupsDone records which key groups were exchanged, and which groups failed. Both have one bit per group.
func (l *Ledger) LookupGroupsDone(exchanged, failed uint64) { l.lookups.GroupsDone(exchanged, failed) }

// LookupDone ends the lookup of a key. If learned is false, because the exchange failed, the key still has to be looked
// up.
func (l *Ledger) LookupDone(t *tally.Tally, learned bool) {
	if !t.PeersUnknown {
		return
	}
	if learned {
		l.counters.lookups.Add(1)
	}
	sh, r := l.lockRecord(&t.Key)
	defer sh.mu.Unlock()
	if r != nil && r.addedAt == t.Added {
		sh.endLookup(r, learned)
	}
}

// LookupAgain queues a key for another lookup if a decision waits for one, and reports whether it has queued the key.
func (l *Ledger) LookupAgain(t *tally.Tally) bool {
	sh, r := l.lockRecord(&t.Key)
	defer sh.mu.Unlock()
	if r == nil || r.addedAt != t.Added || sh.lookups[t.Key] == nil {
		return false
	}
	sh.push(r, lookupClass)
	return true
}
