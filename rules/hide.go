package rules

import (
	"sync/atomic"
	"weak"

	"github.com/headgate/headgate"
)

// An era is the time between two moments at which what a set shows of its clients changes. While a change is hidden, all who
// look a client up in it find what was there before, in as far as it has changed.
type era struct {
	before *roster // nil if nothing is hidden; nobody stands for values that had no client
	// next is the next in which something is hidden: who stays in this one goes through all that follow.
	next atomic.Pointer[era]
}

// showing is the present era of a set, and of those made of it that have the same clients. Each is another one, so that who has
// begun in one notices that it is over.
type showing = atomic.Pointer[era]

// nobody is found where there was no client.
var nobody = &registered{}

func (e *era) hides() bool { return e != nil && e.before != nil }

// find returns the client whose attribute had the value before what is hidden, nobody if there was none.
func (e *era) find(in *Registry, a headgate.Attribute, value string) found {
	sum := in.sum(a, value)
	was := e.noted(sum)
	if was.nobody() {
		// What was there is noted before it is changed: who has seen the change finds the note.
		present := in.values.find(sum)
		if was = e.noted(sum); was.nobody() {
			return present
		}
	}
	if was.registered == nobody {
		return found{}
	}
	return was
}

// noted returns what was there under a value that has changed since the era began, nobody if it has not.
func (e *era) noted(of sum) found {
	for ; e != nil; e = e.next.Load() {
		if was := e.before.find(of); !was.nobody() {
			return was
		}
	}
	return found{}
}

// note notes what was there under a value that is about to change, if that is hidden, and returns its sum.
func (r *Registry) note(a headgate.Attribute, value string) sum {
	of := r.sum(a, value)
	if r.hidden == nil || !r.hidden.before.find(of).nobody() {
		return of
	}
	was := r.values.find(of)
	if was.nobody() {
		was.registered = nobody
	}
	r.hidden.before.add(of, was)
	return of
}

// Hide hides from a set with these clients (see Set.WithClients) what is changed from now on. It shows the clients as they are
// now, until the function that is returned is called: with true the set shows all that has changed, at once, and no match is made
// of some from before and some from after. With false it goes on to show what was: for a set in whose place another has been
// put, with other rules, made with the same registry after Hide. What it shows takes memory as long as somebody has it.
//
// Changes are hidden from one set at a time, by one goroutine. The registry's own methods hide nothing.
func (r *Registry) Hide(from *Set) (end func(show bool)) {
	made := &era{before: &roster{shapes: &r.shapes}}
	r.mu.Lock()
	if last := r.last.Value(); last != nil {
		last.next.Store(made)
	}
	r.hidden, r.last = made, weak.Make(made)
	r.mu.Unlock()
	from.shown.Store(made)
	return func(show bool) {
		r.mu.Lock()
		r.hidden = nil
		r.mu.Unlock()
		if show {
			from.shown.Store(&era{})
		}
	}
}
