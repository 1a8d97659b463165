package registry

import (
	"sync/atomic"
	"weak"

	"github.com/headgate/headgate"
)

// An Epoch is a period in which readers find the same state of the clients. While changes are hidden, lookups in it
// find the previous state of each changed value.
type Epoch struct {
	// before has the previous client of each value that has changed since the epoch began, and noClient for values that
	// had none. It is nil if nothing is hidden.
	before *table
	// next is the next epoch with hidden changes: a lookup in this epoch searches all that follow.
	next atomic.Pointer[Epoch]
}

// CurrentEpoch is the epoch that readers are in. Every change of state stores a new pointer, so that a reader notices
// that its epoch has ended.
type CurrentEpoch = atomic.Pointer[Epoch]

// HidesChanges reports whether some changes are hidden.
func (e *Epoch) HidesChanges() bool { return e != nil && e.before != nil }

// noClient is recorded for a value that had no client.
var noClient = &Entry{}

// Find returns the client that had the value before the hidden changes, absent if there was none.
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

// Hide hides later changes from readers of an epoch. They find the clients as they are now until end is called. With
// true, they then find all changes at once. With false, they keep the previous state, which takes memory as long as the
// epoch is in use.
//
// Changes are hidden from one epoch at a time, by one goroutine. The registry's own methods hide nothing.
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
