package rules

import (
	"sync/atomic"
	"weak"

	"github.com/headgate/headgate"
)

// An epoch is a period in which a set shows the same state of its clients. While changes are hidden, lookups in it find
// the previous state of each changed value.
type epoch struct {
	before *clientTable // nil if nothing is hidden; absentClient stands for values that had no client
	// next is the next epoch with hidden changes: a lookup in this epoch searches all that follow.
	next atomic.Pointer[epoch]
}

// currentEpoch is the epoch of a set and of its copies with the same clients. Every change of state stores a new
// pointer, so that a match notices that its epoch has ended.
type currentEpoch = atomic.Pointer[epoch]

// absentClient is recorded for a value that had no client.
var absentClient = &clientDetails{}

func (e *epoch) hidesChanges() bool { return e != nil && e.before != nil }

// find returns the client that had the value before the hidden changes, absent if there was none.
func (e *epoch) find(in *Registry, a headgate.Attribute, value string) clientRecord {
	sum := in.hash(a, value)
	previous := e.recorded(sum)
	if previous.absent() {
		// The previous state is recorded before it is changed, so a reader that saw the change finds the record.
		present := in.values.find(sum)
		if previous = e.recorded(sum); previous.absent() {
			return present
		}
	}
	if previous.clientDetails == absentClient {
		return clientRecord{}
	}
	return previous
}

// recorded returns the previous client of a value that has changed since the epoch began, absent if it has not changed.
func (e *epoch) recorded(of valueHash) clientRecord {
	for ; e != nil; e = e.next.Load() {
		if previous := e.before.find(of); !previous.absent() {
			return previous
		}
	}
	return clientRecord{}
}

// recordPrevious records the client of a value that is about to change, if changes are hidden, and returns the value's
// hash.
func (r *Registry) recordPrevious(a headgate.Attribute, value string) valueHash {
	of := r.hash(a, value)
	if r.hiding == nil || !r.hiding.before.find(of).absent() {
		return of
	}
	previous := r.values.find(of)
	if previous.absent() {
		previous.clientDetails = absentClient
	}
	r.hiding.before.add(of, previous)
	return of
}

// Hide hides later changes from a set with these clients (see Set.WithClients). The set shows the clients as they are
// now until end is called. With true, the set then shows all changes at once, and no match mixes both states. With
// false, it keeps the previous state: for a set that was replaced by another with other rules, created with the same
// registry after Hide. The previous state takes memory as long as the set is in use.
//
// Changes are hidden from one set at a time, by one goroutine. The registry's own methods hide nothing.
func (r *Registry) Hide(from *Set) (end func(show bool)) {
	hiding := &epoch{before: &clientTable{shapes: &r.shapes}}
	r.mu.Lock()
	if last := r.lastHiding.Value(); last != nil {
		last.next.Store(hiding)
	}
	r.hiding, r.lastHiding = hiding, weak.Make(hiding)
	r.mu.Unlock()
	from.epoch.Store(hiding)
	return func(show bool) {
		r.mu.Lock()
		r.hiding = nil
		r.mu.Unlock()
		if show {
			from.epoch.Store(&epoch{})
		}
	}
}
