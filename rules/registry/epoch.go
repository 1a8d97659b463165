package registry

import (
	"sync/atomic"
	"weak"

	"github.com/headgate/headgate"
)

// An Epoch is a period in which readers find the same state of the clients. While changes are hidden, lookups in
// the epoch find the previous client of each changed value.
type Epoch struct {
	// before has the previous client of each value that has changed since the epoch began, and noClient for values that
	// had none. It is nil if nothing is hidden.
	before *table
	// next is the next epoch with hidden changes. A lookup in this epoch also searches all later epochs,
	// because their changes are hidden from it as well.
	next atomic.Pointer[Epoch]
}

// CurrentEpoch is the epoch of readers. Every change that they should see stores a new pointer, so that a reader
// notices that its epoch has ended.
type CurrentEpoch = atomic.Pointer[Epoch]

// HidesChanges reports whether some changes are hidden.
func (e *Epoch) HidesChanges() bool { return e != nil && e.before != nil }

// noClient is recorded for a value that had no client.
var noClient = &Entry{}

// Find returns the client that had the value before the hidden changes, or an absent Client if there was none.
func (e *Epoch) Find(r *Registry, a headgate.Attribute, value string) Client {
	hash := r.hash(a, value)
	// The previous client is recorded before the value is changed, so a reader that sees the change finds the record.
	entry := r.values.find(hash)
	for ; e != nil; e = e.next.Load() {
		if previous := e.before.find(hash); !previous.Absent() {
			entry = previous
			break
		}
	}
	if entry.Entry == noClient {
		return Client{}
	}
	return entry
}

// Hide hides later changes from readers of an epoch. Until end is called, they find the clients as they are now.
// end(true) shows them all changes together. After end(false) they keep finding the previous state, which takes
// memory as long as the epoch is in use.
//
// Only one goroutine may hide changes at a time, from one epoch. The methods of the registry, such as Find,
// return the current state even while changes are hidden.
func (r *Registry) Hide(from *CurrentEpoch) (end func(show bool)) {
	hiding := &Epoch{before: &table{}}
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
