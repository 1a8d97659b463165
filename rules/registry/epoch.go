package registry

import (
	"sync/atomic"
	"weak"

	"github.com/headgate/headgate"
)

// An Epoch is a period in which readers find the same state of the clients. If it hides changes, lookups in the epoch
// find the previous client of each changed value.
type Epoch struct {
	// before has the previous client of each value that has changed since the epoch began. For a value that had no client
	// it has noClient. It is nil if the epoch hides no changes.
	before *table
	// next is the next epoch that hides changes. The changes in all later epochs are hidden from this epoch, too, so a
	// lookup also searches these epochs.
	next atomic.Pointer[Epoch]
}

// A CurrentEpoch points to the epoch of readers. When hidden changes become visible, the pointer changes, so that a
// reader notices that its epoch has ended.
type CurrentEpoch = atomic.Pointer[Epoch]

// HidesChanges reports whether some changes are hidden.
func (e *Epoch) HidesChanges() bool { return e != nil && e.before != nil }

// noClient is the previous entry of a value that had no client.
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

// Hide hides later changes from the readers of an epoch. Until end is called, these readers find the clients as they
// are now. end(true) makes all changes visible together. After end(false) the readers keep finding the previous state,
// which takes memory as long as the epoch is in use.
//
// Only one goroutine may hide changes at a time, from one epoch. The methods of Registry, such as Find, return the
// current state even while changes are hidden.
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
