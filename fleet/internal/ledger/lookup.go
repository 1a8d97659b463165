package ledger

import (
	"context"
	"sync/atomic"
	"time"
)

// A node that asks for what others consumed knows nothing of a key that it sees for the first time, nor of what happened to one
// that it has left alone for a while. Such a key is unlearned until the next exchange has brought what others left.
//
// The first decision on an unlearned key goes by this node's own counter and does not wait. Later ones wait for the lookup,
// if the counter would allow them: at most maxLookup, and not at all while lookups fail or too many decisions wait. So
// consumption that others have told counts in full from the second decision on, and no decision on a key that is in use waits.

// MaxLookup is how long a decision waits for a lookup at most: two round trips to a far store, as the exchange under way may have
// to end first.
const MaxLookup = 250 * time.Millisecond

// MaxWaiting is how many decisions wait for lookups at most. Beyond that they go by this node's own counter, and are counted.
const MaxWaiting = 4096

// lookupClass is the queue of keys that decisions wait for: the first that is told.
const lookupClass = classes - 1

// learning is how a ledger has keys looked up. It is for ledgers that ask.
type learning struct {
	// hurry has the keys of lookupClass looked up soon. It is nil if nothing does so: then no decision waits.
	hurry func()
	// cold is for how long a key may be left alone before it has to be learned again, in µs.
	cold int64

	deaf    atomic.Uint64 // groups of keys whose latest lookup failed, or took too long: no decision waits for them
	waiting atomic.Int64

	lookups, waits, dropped atomic.Int64
}

// A Lookup is what decisions on a key wait for.
type Lookup struct {
	key   Key
	ended chan struct{}
}

// StartLookups has decisions wait for lookups that hurry starts.
func (l *Ledger) StartLookups(hurry func()) { l.learning.hurry = hurry }

// see notes that a record is decided on, and returns what to wait for before that, or nil. The shard is locked.
func (l *Ledger) see(sh *shard, r *record, a *ask, now moment) *Lookup {
	if !r.unlearned {
		if r.at(now)-max(r.askedAt, r.exchanged) <= l.learning.cold || !r.plan.Shared {
			return nil
		}
		l.unlearn(sh, r)
		if a.n == 0 {
			sh.push(r, lookupClass) // there is nothing else to tell of it
		}
		return nil // this is the first decision
	}
	if !a.patient || l.learning.hurry == nil {
		return nil
	}
	if a.n > 0 && !l.look(r, a.n, now).Allowed {
		return nil // consumption elsewhere does not change that
	}
	if l.away.Load() || l.learning.deaf.Load()>>GroupOf(&r.key)&1 == 1 || l.learning.waiting.Load() >= MaxWaiting {
		l.learning.dropped.Add(1)
		return nil
	}
	wait := sh.lookups[r.key]
	if wait == nil {
		wait = &Lookup{key: r.key, ended: make(chan struct{})}
		if sh.lookups == nil {
			sh.lookups = make(map[Key]*Lookup)
		}
		sh.lookups[r.key] = wait
	}
	sh.push(r, lookupClass)
	return wait
}

// touch notes that somebody wanted to consume of a record, and does not wait.
func (l *Ledger) touch(sh *shard, r *record, now moment) {
	if r.at(now)-r.askedAt > l.learning.cold {
		l.see(sh, r, &ask{}, now)
	}
	r.askedAt = r.at(now)
}

// unlearn notes that what others consumed of a key is not known.
func (l *Ledger) unlearn(sh *shard, r *record) {
	r.unlearned = true
	sh.unlearned.Add(1)
}

// release lets go of decisions that wait for a record, learned or not.
func (sh *shard) release(r *record, learned bool) {
	if wait := sh.lookups[r.key]; wait != nil {
		close(wait.ended)
		delete(sh.lookups, r.key)
	}
	if learned && r.unlearned {
		r.unlearned = false
		sh.unlearned.Add(-1)
	}
}

// Await waits until a lookup has ended, or for as long as one may take. It returns an error if ctx ends first.
func (l *Ledger) Await(ctx context.Context, lookups ...*Lookup) error {
	n := &l.learning
	n.waiting.Add(1)
	defer n.waiting.Add(-1)
	n.waits.Add(1)
	n.hurry()
	expired := make(chan struct{})
	timer := l.options.Clock.AfterFunc(MaxLookup, func() { close(expired) })
	defer timer.Stop()
	for _, lookup := range lookups {
		select {
		case <-lookup.ended:
		case <-expired:
			n.dropped.Add(1)
			l.LookupsDone(0, 1<<GroupOf(&lookup.key))
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// ExchangeDone notes that an exchange of tallies has ended, in which some were missed.
func (l *Ledger) ExchangeDone(tallies []Tally, missed []int) {
	var met, bad uint64
	for i := range tallies {
		met |= 1 << GroupOf(&tallies[i].Key)
	}
	for _, i := range missed {
		t := &tallies[i]
		bad |= 1 << GroupOf(&t.Key)
		l.LookedUp(t, false)
		t.Unlearned = false
	}
	l.LookupsDone(met, bad)
	for i := range tallies {
		l.LookedUp(&tallies[i], true)
	}
}

// LookupsDone notes of which groups of keys an exchange was made, and of which of them it failed.
func (l *Ledger) LookupsDone(met, failed uint64) {
	deaf := &l.learning.deaf
	for {
		was := deaf.Load()
		is := was&^met | failed
		if is == was || deaf.CompareAndSwap(was, is) {
			return
		}
	}
}

// LookedUp notes that others were asked for a key, if it was unlearned, and whether they have answered.
func (l *Ledger) LookedUp(t *Tally, learned bool) {
	if !t.Unlearned {
		return
	}
	if learned {
		l.learning.lookups.Add(1)
	}
	sh := l.shardOf(&t.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r := sh.records[t.Key]; r != nil && r.born == t.Added {
		sh.release(r, learned)
	}
}

// LookUpAgain has a key looked up once more. It reports whether a decision waits for it.
func (l *Ledger) LookUpAgain(t *Tally) bool {
	sh := l.shardOf(&t.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.records[t.Key]
	if r == nil || r.born != t.Added || sh.lookups[t.Key] == nil {
		return false
	}
	sh.push(r, lookupClass)
	return true
}
