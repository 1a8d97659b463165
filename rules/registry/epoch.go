package registry

import (
	"sync/atomic"
	"weak"

	"github.com/headgate/headgate"
)

// An Epoch is a period in which readers find the same state of the clients. While changes are hidden, lookups in it
// find the previous state of each changed value.
type Epoch struct {
	before *clientTable // nil if nothing is hidden; absentClient stands for values that had no client
	// next is the next epoch with hidden changes: a lookup in this epoch searches all that follow.
	next atomic.Pointer[Epoch]
}

// CurrentEpoch is the epoch that readers are in. Every change of state stores a new pointer, so that a reader notices
// that its epoch has ended.
type CurrentEpoch = atomic.Pointer[Epoch]

// absentClient is recorded for a value that had no client.
var absentClient = &clientDetails{}

// HidesChanges reports whether some changes are hidden.
func (e *Epoch) HidesChanges() bool { return e != nil && e.before != nil }

// Find returns the client that had the value before the hidden changes, absent if there was none.
func (e *Epoch) Find(in *Registry, a headgate.Attribute, value string) Found {
	sum := in.hash(a, value)
	previous := e.recorded(sum)
	if previous.Absent() {
		// The previous state is recorded before it is changed, so a reader that saw the change finds the record.
		present := in.values.find(sum)
		if previous = e.recorded(sum); previous.Absent() {
			return present
		}
	}
	if previous.clientDetails == absentClient {
		return Found{}
	}
	return previous
}

// recorded returns the previous client of a value that has changed since the epoch began, absent if it has not changed.
func (e *Epoch) recorded(of valueHash) Found {
	for ; e != nil; e = e.next.Load() {
		if previous := e.before.find(of); !previous.Absent() {
			return previous
		}
	}
	return Found{}
}

// recordPrevious records the client of a value that is about to change, if changes are hidden, and returns the value's
// hash.
func (r *Registry) recordPrevious(a headgate.Attribute, value string) valueHash {
	of := r.hash(a, value)
	if r.hiding == nil || !r.hiding.before.find(of).Absent() {
		return of
	}
	previous := r.values.find(of)
	if previous.Absent() {
		previous.clientDetails = absentClient
	}
	r.hiding.before.add(of, previous)
	return of
}

// Hide hides later changes from readers of an epoch. They find the clients as they are now until end is called. With
// true, they then find all changes at once. With false, they keep the previous state, which takes memory as long as the
// epoch is in use.
//
// Changes are hidden from one epoch at a time, by one goroutine. The registry's own methods hide nothing.
func (r *Registry) Hide(from *CurrentEpoch) (end func(show bool)) {
	hiding := &Epoch{before: &clientTable{shapes: &r.shapes}}
	r.mu.Lock()
	if last := r.lastHiding.Value(); last != nil {
		last.next.Store(hiding)
	}
	r.hiding, r.lastHiding = hiding, weak.Make(hiding)
	r.mu.Unlock()
	from.Store(hiding)
	return func(show bool) {
		r.mu.Lock()
		r.hiding = nil
		r.mu.Unlock()
		if show {
			from.Store(&Epoch{})
		}
	}
}
