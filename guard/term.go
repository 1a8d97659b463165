package guard

import (
	"context"
	"math"
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

	next  *term // that began before it
	count int   // of it and those
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

// end ends the term, if it has not ended yet.
func (t *term) end(how uint32) {
	if t.state.CompareAndSwap(termRuns, how) {
		close(t.done)
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

const (
	// callerLook is how often it is seen whether callers have given up: a call may outlast its caller's context for so long.
	callerLook = time.Millisecond
	// manyTerms is how many may begin before those that are over are forgotten.
	manyTerms = 256
)

// terms are those under way. To begin or to end one takes no lock: a caller who lost his core while he held it would keep
// all others from asking.
type terms struct {
	start time.Time
	began atomic.Pointer[term] // since the last look, the latest first; some are over
	looks atomic.Int64         // when the next look is, in ns since the start; never if there is none

	mu    sync.Mutex // held by who looks
	live  []*term    // that had begun before the last look
	timer *time.Timer
}

const never = math.MaxInt64

func newTerms() *terms {
	s := &terms{start: time.Now()}
	s.looks.Store(never)
	return s
}

// begin returns a term from now on. It must be ended.
func (s *terms) begin(ctx context.Context, now, deadline time.Time) *term {
	t := &term{Context: ctx, deadline: deadline, done: make(chan struct{})}
	for {
		t.next, t.count = s.began.Load(), 1
		if t.next != nil {
			t.count = t.next.count + 1
		}
		if s.began.CompareAndSwap(t.next, t) {
			break
		}
	}
	switch at := t.nextLook(now); {
	case t.count%manyTerms == 0:
		s.look()
	case int64(at.Sub(s.start)) < s.looks.Load():
		s.mu.Lock()
		s.wake(now, at)
		s.mu.Unlock()
	}
	return t
}

// wake has the terms looked at, at a time or before.
func (s *terms) wake(now, at time.Time) {
	if next := int64(at.Sub(s.start)); next < s.looks.Load() {
		s.looks.Store(next)
	} else {
		return
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(at.Sub(now), s.look)
	} else {
		s.timer.Reset(at.Sub(now))
	}
}

// look ends the terms that are used up or given up, and forgets those that are over.
func (s *terms) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.looks.Store(never) // before it is seen who has begun: who begins after that sees to his own look
	for t := s.began.Swap(nil); t != nil; {
		s.live = append(s.live, t)
		t, t.next = t.next, nil
	}
	kept, next := s.live[:0], time.Time{}
	for _, t := range s.live {
		switch {
		case t.state.Load() != termRuns:
			continue
		case t.Context.Err() != nil:
			t.end(termGivenUp)
			continue
		case !now.Before(t.deadline):
			t.end(termUsedUp)
			continue
		}
		if at := t.nextLook(now); len(kept) == 0 || at.Before(next) {
			next = at
		}
		kept = append(kept, t)
	}
	clear(s.live[len(kept):])
	s.live = kept
	if len(kept) > 0 {
		s.wake(now, next)
	}
}

// end ends the term of a call that is over.
func (s *terms) end(t *term) { t.end(termOver) }
