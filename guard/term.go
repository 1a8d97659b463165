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

	next *term // that began before it
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

// A Forgetter is a store that forgets the context of a call when the call returns: nothing that it leaves running asks it
// for anything. The guard uses the contexts that it gives to such a store again and again, and leaves less garbage behind.
type Forgetter interface {
	ForgetsContexts()
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
	// manyTerms is how many may begin before those that are over are forgotten; or as many as are under way, if these are more, or
	// else to look at them all would be most of the work when callers wait in a long line.
	manyTerms = 256
)

// terms are those under way. To begin or to end one waits for no lock: a caller who lost his core while he held it would keep
// all others from asking.
type terms struct {
	start  time.Time
	reuses bool                 // those that are over, which nobody asks any more
	over   sync.Pool            // of these
	count  atomic.Uint64        // of all
	due    atomic.Uint64        // the count at which there are many since the last look
	began  atomic.Pointer[term] // since the last look, the latest first; some are over
	looks  atomic.Int64         // when the next look is, in ns since the start; never if there is none
	wanted atomic.Int64         // when one is wanted, likewise

	mu    sync.Mutex // held by who looks, or sets the timer
	live  []*term    // that had begun before the last look
	timer *time.Timer
}

const never = math.MaxInt64

func newTerms(reuses bool) *terms {
	s := &terms{start: time.Now(), reuses: reuses}
	s.due.Store(manyTerms)
	s.looks.Store(never)
	s.wanted.Store(never)
	return s
}

// begin returns a term from now on. It must be ended.
func (s *terms) begin(ctx context.Context, now, deadline time.Time) *term {
	t, ok := s.over.Get().(*term)
	if !ok {
		t = &term{done: make(chan struct{})}
	}
	t.Context, t.deadline = ctx, deadline
	t.state.Store(termRuns)
	for {
		t.next = s.began.Load()
		if s.began.CompareAndSwap(t.next, t) {
			break
		}
	}
	if s.count.Add(1) >= s.due.Load() && s.mu.TryLock() {
		s.look()
	} else if at := int64(t.nextLook(now).Sub(s.start)); at < s.looks.Load() {
		s.want(at)
	}
	return t
}

// want has the terms looked at, at a time or before.
func (s *terms) want(at int64) {
	for old := s.wanted.Load(); at < old && !s.wanted.CompareAndSwap(old, at); old = s.wanted.Load() {
	}
	s.settle()
}

// settle sees to the look that is wanted, unless somebody has the lock, who will when he lets go of it.
func (s *terms) settle() {
	for s.wanted.Load() != never && s.mu.TryLock() {
		s.wake(s.wanted.Swap(never))
		s.mu.Unlock()
	}
}

// wake sets the timer to a time, if it is not earlier already.
func (s *terms) wake(at int64) {
	if at >= s.looks.Load() {
		return
	}
	s.looks.Store(at)
	in := time.Duration(at) - time.Since(s.start)
	if s.timer == nil {
		s.timer = time.AfterFunc(in, func() {
			s.mu.Lock()
			s.look()
		})
	} else {
		s.timer.Reset(in)
	}
}

// look ends the terms that are used up or given up, and forgets those that are over. It is called with the lock, and lets go
// of it.
func (s *terms) look() {
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
			s.reuse(t)
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
	s.due.Store(s.count.Load() + max(manyTerms, uint64(len(kept))))
	if len(kept) > 0 {
		s.wake(int64(next.Sub(s.start)))
	}
	s.mu.Unlock()
	s.settle()
}

// end ends the term of a call that is over. It must not be asked any more.
func (s *terms) end(t *term) {
	if s.reuses {
		t.state.CompareAndSwap(termRuns, termOver)
		return
	}
	t.end(termOver)
}

// reuse keeps a term that has ended and is known to nobody any more, unless it has told that it has.
func (s *terms) reuse(t *term) {
	if s.reuses && t.state.Load() == termOver {
		t.Context = context.Background()
		s.over.Put(t)
	}
}
