package guard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A term is the time that a call has: a context that ends at a deadline, and with the caller's. It is what
// context.WithDeadline makes, for a fraction of the work: every call needs one, and next to none is ever used up, so one
// timer looks after all of them instead of each having its own.
type term struct {
	context.Context // the caller's
	deadline        time.Time
	done            chan struct{}
	state           atomic.Uint32 // how it ended, before done is closed
	at              int           // among those under way
}

// How a term ended.
const (
	termRuns    uint32 = iota
	termUsedUp         // the deadline has passed
	termGivenUp        // the caller's context has ended
	termOver           // the call has
)

var _ context.Context = (*term)(nil)

func (t *term) Deadline() (time.Time, bool) {
	if d, ok := t.Context.Deadline(); ok && d.Before(t.deadline) {
		return d, true
	}
	return t.deadline, true
}

func (t *term) Done() <-chan struct{} { return t.done }

func (t *term) Err() error {
	switch t.state.Load() {
	case termRuns:
		return nil
	case termUsedUp:
		return context.DeadlineExceeded
	case termGivenUp:
		return t.Context.Err()
	default:
		return context.Canceled
	}
}

// nextLook returns when to see whether it has ended. That the caller's context never does is known only of the plainest:
// others would make a channel to tell.
func (t *term) nextLook(now time.Time) time.Time {
	if soon := now.Add(callerLook); t.Context != context.Background() && soon.Before(t.deadline) {
		return soon
	}
	return t.deadline
}

// callerLook is how often it is seen whether callers have given up: a call may outlast its caller's context for so long.
const callerLook = time.Millisecond

// terms are those under way.
type terms struct {
	mu    sync.Mutex
	live  []*term
	timer *time.Timer // runs while somebody is under way
	next  time.Time   // when it fires, zero if it does not
}

// begin returns a term from now on. It must be ended.
func (s *terms) begin(ctx context.Context, now, deadline time.Time) *term {
	t := &term{Context: ctx, deadline: deadline, done: make(chan struct{})}
	look := t.nextLook(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.at = len(s.live)
	s.live = append(s.live, t)
	if s.next.IsZero() || look.Before(s.next) {
		s.wake(now, look)
	}
	return t
}

// wake has the terms looked at, at a time.
func (s *terms) wake(now, at time.Time) {
	s.next = at
	if s.timer == nil {
		s.timer = time.AfterFunc(at.Sub(now), s.look)
	} else {
		s.timer.Reset(at.Sub(now))
	}
}

// look ends the terms that are used up or given up.
func (s *terms) look() {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var next time.Time
	for i := 0; i < len(s.live); {
		t := s.live[i]
		switch {
		case t.Context.Err() != nil:
			s.drop(t, termGivenUp)
			continue
		case !now.Before(t.deadline):
			s.drop(t, termUsedUp)
			continue
		}
		if look := t.nextLook(now); next.IsZero() || look.Before(next) {
			next = look
		}
		i++
	}
	s.next = next
	if !next.IsZero() {
		s.wake(now, next)
	}
}

// end ends the term of a call that is over.
func (s *terms) end(t *term) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.at >= 0 {
		s.drop(t, termOver)
	}
}

// drop takes a term from those under way.
func (s *terms) drop(t *term, how uint32) {
	last := len(s.live) - 1
	s.live[t.at] = s.live[last]
	s.live[t.at].at = t.at
	s.live[last] = nil
	s.live = s.live[:last]
	t.at = -1
	t.state.Store(how)
	close(t.done)
}
