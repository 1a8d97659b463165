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
	shard           *shard
	began, deadline time.Time
	done            chan struct{}
	state           atomic.Uint32 // how it ended, before done is closed

	next *term // that began before it

	// Read and written under terms.mu only:
	sent  bool          // the call was sent
	heard bool          // the deadline was extended because the shard had just sent something
	more  time.Duration // by how much the deadline was extended
}

// How a term ended.
const (
	termRuns    uint32 = iota
	termUsedUp         // the deadline has passed
	termLags           // and so has every extension: this process did not get to send the call, or to read the answer
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
	case termUsedUp, termLags:
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

// A Wire is a store that knows what it has sent and read. With it the guard tells a shard that is slow from a process that
// is: this one, when its processor is busy with other work. The deadline of a call then begins when the call is sent, and
// does not end it while something waits to be read. If the shard sent something within the last deadline, the response may
// have been read and not reached its caller yet: the call then lasts until the shard has been silent for a deadline, or for
// one deadline more. A call lasts ten deadlines at most, and if it has not been sent or its response not been read by then,
// that is no failure of the store.
type Wire interface {
	// LastSent returns when something was last sent to a shard, or the zero time if that is not known.
	LastSent(shard string) time.Time
	// LastReceived returns when something was last read from a shard, or the zero time if that is not known.
	LastReceived(shard string) time.Time
	// HasUnread reports whether a shard has sent something that was not read yet.
	HasUnread(shard string) bool
}

// nextLook returns when to see whether it has ended. That the caller's context never does is known only of the plainest:
// others would make a channel to tell.
func (s *terms) nextLook(t *term, now time.Time) time.Time {
	every := s.every
	if t.Context != context.Background() {
		every = min(every, callerLook)
	}
	soon, end := now.Add(every), t.deadline.Add(t.more)
	if soon.Before(end) {
		return soon
	}
	return end
}

const (
	// callerLook is how often it is seen whether callers have given up: a call may outlast its caller's context for so long.
	callerLook = time.Millisecond
	// manyTerms is how many may begin before those that are over are forgotten; or as many as are under way, if these are more, or
	// else to look at them all would be most of the work when callers wait in a long line.
	manyTerms = 256
)

// terms are the deadlines of the calls in flight. Starting or ending one takes no lock: a goroutine that was preempted while it
// held the lock would block all others.
type terms struct {
	start    time.Time
	patience time.Duration        // the deadline of a call
	every    time.Duration        // how often to look at least, to notice when this process stands still
	most     time.Duration        // how far a deadline may be extended
	wire     Wire                 // nil if the store is none
	reuses   bool                 // those that are over, which nobody asks any more
	over     sync.Pool            // of these
	count    atomic.Uint64        // of all
	due      atomic.Uint64        // the count at which there are many since the last look
	began    atomic.Pointer[term] // since the last look, the latest first; some are over
	looks    atomic.Int64         // when the next look is, in ns since the start; never if there is none
	wanted   atomic.Int64         // when one is wanted, likewise

	mu    sync.Mutex // held by who looks, or sets the timer
	live  []*term    // that had begun before the last look
	timer *time.Timer
}

const never = math.MaxInt64

// lookShare is how often terms are looked at within a deadline, and lagShare how many deadlines a term lasts at most.
const lookShare, lagShare = 8, 10

func newTerms(reuses bool, deadline time.Duration) *terms {
	s := &terms{
		start: time.Now(), reuses: reuses,
		patience: deadline, every: max(deadline/lookShare, 1), most: (lagShare - 1) * deadline,
	}
	s.due.Store(manyTerms)
	s.looks.Store(never)
	s.wanted.Store(never)
	return s
}

// begin returns a term from now on. It must be ended.
func (s *terms) begin(ctx context.Context, sh *shard, now, deadline time.Time) *term {
	t, ok := s.over.Get().(*term)
	if !ok {
		t = &term{done: make(chan struct{})}
	}
	t.Context, t.shard, t.began, t.deadline, t.more = ctx, sh, now, deadline, 0
	t.sent, t.heard = s.wire == nil, s.wire == nil
	t.state.Store(termRuns)
	at := int64(s.nextLook(t, now).Sub(s.start)) // before others can see t
	for {
		t.next = s.began.Load()
		if s.began.CompareAndSwap(t.next, t) {
			break
		}
	}
	if s.count.Add(1) >= s.due.Load() && s.mu.TryLock() {
		s.look(0)
	} else if at < s.looks.Load() {
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

// settle runs the look that was requested, unless another goroutine has the lock, which then does so when it unlocks.
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
			s.look(time.Since(s.start) - time.Duration(s.looks.Load()))
		})
	} else {
		s.timer.Reset(in)
	}
}

// look ends the terms that are used up or given up, and forgets those that are over. late is by how much it comes too
// late: for that long nobody in this process could do anything, so deadlines are extended by it. It is called with the
// lock, and lets go of it.
func (s *terms) look(late time.Duration) {
	now := time.Now()
	s.looks.Store(never) // before the list is read: a term that begins later requests its own look
	for t := s.began.Swap(nil); t != nil; {
		s.live = append(s.live, t)
		t, t.next = t.next, nil
	}
	if late < leastLate {
		late = 0
	}
	kept, next := s.live[:0], time.Time{}
	for _, t := range s.live {
		if t.state.Load() != termRuns {
			s.reuse(t)
			continue
		}
		if t.Context.Err() != nil {
			t.end(termGivenUp)
			continue
		}
		t.more = min(t.more+late, s.most)
		if how := s.expired(t, now); how != termRuns {
			t.end(how)
			continue
		}
		if at := s.nextLook(t, now); len(kept) == 0 || at.Before(next) {
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

// leastLate is from when on a look counts as late.
const leastLate = time.Millisecond

// expired returns how a term ends now, termRuns if it does not.
func (s *terms) expired(t *term, now time.Time) uint32 {
	if !t.sent {
		if at := s.wire.LastSent(t.shard.name); at.IsZero() || !at.Before(t.began) {
			t.sent = true
			t.more = min(max(t.more, at.Sub(t.began)), s.most)
		}
	}
	switch {
	case now.Before(t.deadline.Add(t.more)):
		return termRuns
	case t.sent && !s.lags(t.shard):
		if t.heard {
			return termUsedUp
		}
		t.heard = true
		silent := now.Sub(s.wire.LastReceived(t.shard.name))
		if silent >= s.patience || t.more >= s.most {
			return termUsedUp
		}
		t.more = min(now.Add(s.patience-silent).Sub(t.deadline), s.most)
		return termRuns
	case t.more >= s.most:
		return termLags
	default:
		t.more = min(now.Add(callerLook).Sub(t.deadline), s.most)
		return termRuns
	}
}

// lags reports whether this process has not read yet what a shard sent.
func (s *terms) lags(sh *shard) bool { return s.wire != nil && s.wire.HasUnread(sh.name) }

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
