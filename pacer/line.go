package pacer

import (
	"sync"
	"time"
)

// line is the queue before a schedule, strictly first come first served. It holds those whose time has not come, and
// books each of them when it has: one that leaves before has taken nothing, and those behind move up.
//
// There is no goroutine behind it. The first who waits keeps the time for all, and hands that duty on when it goes.
// A [Queue] and a [TokenQueue] give the duty to a keeper of their own instead.
type line struct {
	mu    sync.Mutex
	epoch time.Time // instants count from here; never changes
	sched schedule
	// most is the largest count that can ever pass; 0 means any.
	most int64
	// room is how many units may stand in line; 0 means any number.
	room  int64
	units int64

	// head is the state after all who were granted; tail, unless stale, that after all who stand in line as well.
	head, tail  state
	stale       bool
	first, last *place
	waiting     int // those in line who are not promised anything
	promises    int // those who are
	// moved is when those in line last moved up. Nobody in line can have been granted before.
	moved  int64
	shifts uint64 // how often they did
	// lead is who was last told to keep the time.
	lead *place

	keeper *keeper
	closed bool
}

// place is one caller's place in a line.
type place struct {
	n     int64
	since int64
	// at is the instant that was promised to a reservation, and when any other was granted. What was promised stays,
	// whatever happens to those in front.
	at       int64
	promised bool
	inLine   bool
	// before is the line's tail before p joined, worth something until there is another shift.
	before state
	shifts uint64
	// after is the state that a reservation was to leave behind when it was made, or last priced anew.
	after state
	// err is why a waiter was sent away; it may be read once done is closed.
	err error
	// done is closed when a waiter is granted or sent away; nil for reservations and jobs.
	done chan struct{}
	// alarm tells a waiter to keep the time until the given instant; it holds one, the latest.
	alarm chan int64
	job   *job

	prev, next *place
}

// clock returns the present, as a time and as an instant. Called with mu held, so that instants never go back.
func (l *line) clock() (time.Time, int64) {
	t := time.Now()
	return t, int64(t.Sub(l.epoch))
}

// refuse returns why n can't be asked for, whenever it is.
func (l *line) refuse(n int64) error {
	switch {
	case l.sched == nil:
		return ErrUninitialized
	case n < 1:
		return badCount(n)
	case l.closed:
		return ErrClosed
	case l.most > 0 && n > l.most:
		return never(n, "at most "+decimal(l.most)+", which is all there can be at once")
	}
	return nil
}

// ask tries n permits at now behind everybody in line, and changes nothing but who was due.
func (l *line) ask(now, n int64) (after state, grant int64, err error) {
	l.settle(now)
	if l.first == nil {
		l.tail, l.stale = l.head, false
	} else if l.stale {
		s := l.head
		for p := l.first; p != nil; p = p.next {
			s, _ = l.book(s, p)
		}
		l.tail, l.stale = s, false
	}
	if after, grant = l.take(l.tail, now, n); after.full() {
		return after, grant, tooLong(n)
	}
	return after, grant, nil
}

// idle reports whether a grant that ask returned is for now and may be had without standing in line.
func (l *line) idle(now, grant int64) bool {
	return grant <= now && l.first == nil && (l.keeper == nil || !l.keeper.busy)
}

// pass books what ask returned, without standing in line.
func (l *line) pass(after state) { l.head, l.tail = after, after }

// join puts p at the end of the line, with what ask returned.
func (l *line) join(p *place, after state) {
	p.before, p.shifts, p.after = l.tail, l.shifts, after
	l.tail = after
	l.units += p.n
	l.count(p, 1)
	p.inLine, p.prev = true, l.last
	if l.last == nil {
		l.first = p
	} else {
		l.last.next = p
	}
	l.last = p
	l.appoint()
}

// book returns the state after p, and when p may go.
func (l *line) book(s state, p *place) (after state, grant int64) {
	after, grant = l.take(s, max(p.since, l.moved), p.n)
	if !p.promised {
		return after, grant
	}
	if grant < p.at { // somebody in front has left a gap that p will not fill
		after = l.sched.late(s, p.at, p.n, p.after)
	}
	if after.full() { // only a lower rate does that; what it can never pay off would be in the way for ever
		after = l.sched.advance(s, p.at)
	}
	after.promised = max(s.promised, p.at)
	return after, p.at
}

// take books n permits behind all that was promised before them.
func (l *line) take(s state, at, n int64) (after state, grant int64) {
	after, grant = l.sched.take(s, at, n)
	return after, max(grant, s.promised)
}

// settle grants everybody whose time has come.
func (l *line) settle(now int64) {
	for p := l.first; p != nil && (l.keeper == nil || !l.keeper.busy); p = l.first {
		after, grant := l.book(l.head, p)
		if grant > now {
			break
		}
		l.head = after
		l.unlink(p)
		p.at = grant
		if p.job != nil {
			l.keeper.hand(p)
		} else if p.done != nil {
			close(p.done)
		}
	}
	l.appoint()
}

// leave takes p out of the line, if it is still there, and lets those behind move up. What was promised may have been used
// once its time has come, even if p still stands behind somebody who waits for a later one.
func (l *line) leave(p *place, now int64) bool {
	l.settle(now)
	if !p.inLine || p.promised && p.at <= now {
		return false
	}
	last := p == l.last
	l.unlink(p)
	if last && p.shifts == l.shifts { // nobody moves up, so there is nothing to work out
		l.tail = p.before
		l.appoint()
	} else {
		l.shift(now)
	}
	return true
}

// dismiss takes p out of the line and tells it why; the caller calls shift.
func (l *line) dismiss(p *place, err error) {
	l.unlink(p)
	p.err = err
	switch {
	case p.job != nil:
		p.job.end(err)
	case p.done != nil:
		close(p.done)
	}
}

// shift works out anew when those in line may go, after something in front of them has changed.
func (l *line) shift(moved int64) {
	l.moved = max(l.moved, moved)
	l.shifts++
	l.stale = true
	l.lead = nil
	l.settle(moved)
}

// reschedule changes the schedule and what it makes of the state. Those in line keep their order and reservations their
// times; the others go by the new schedule, and those who no longer can are sent away.
func (l *line) reschedule(now int64, sched schedule, most int64, convert func(state) state) {
	l.settle(now)
	l.head = convert(l.sched.advance(l.head, now))
	l.sched, l.most = sched, most
	l.moved = max(l.moved, now)
	s := l.head
	for p := l.first; p != nil; {
		next := p.next
		if err := l.reprice(&s, p); err != nil {
			l.dismiss(p, err)
		}
		p = next
	}
	l.shift(now)
}

// reprice books p under a new schedule and moves s on behind it, or returns why p can't stay in line.
func (l *line) reprice(s *state, p *place) error {
	if p.promised {
		// What it was to leave behind went by the old prices.
		held := *s
		held.free = span{ns: max(p.at, s.free.ceil())}
		p.after, _ = l.sched.take(held, p.at, p.n)
	} else if err := l.refuse(p.n); err != nil {
		return err
	}
	after, _ := l.book(*s, p)
	if after.full() && !p.promised {
		return tooLong(p.n)
	}
	*s = after
	return nil
}

// appoint tells the first who waits, or the keeper, when to call settle.
func (l *line) appoint() {
	if l.waiting == 0 || l.lead != nil && l.lead.inLine {
		return
	}
	s, p := l.head, l.first
	for ; p != nil && p.promised; p = p.next {
		s, _ = l.book(s, p)
	}
	l.lead = p
	_, due := l.book(s, p)
	alarm := p.alarm
	if l.keeper != nil {
		alarm = l.keeper.alarm
	}
	select {
	case <-alarm:
	default:
	}
	alarm <- due // never blocks: it has room for one, and only holders of mu send
}

func (l *line) unlink(p *place) {
	if p.prev == nil {
		l.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		l.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next, p.inLine = nil, nil, false
	l.units -= p.n
	l.count(p, -1)
}

// count adds to the number of those in line who are like p.
func (l *line) count(p *place, by int) {
	if p.promised {
		l.promises += by
	} else {
		l.waiting += by
	}
}
