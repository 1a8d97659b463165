package turns

import "time"

// A Turn is the state of one connection in a Queue. The connection has a turn while held is set. The zero value is
// ready to use. Only one goroutine at a time may call its methods.
type Turn struct {
	mustEnd bool          // the number of turns was limited in Begin, so End and Leave must update the turn
	prompt  bool          // the client sent its latest request promptly after the previous response
	used    bool          // Begin was called before, so this is not the connection's first request
	slow    bool          // the last request took longer than quickTime, and began in the round slowIn
	slowIn  uint32        // see Queue.round
	awaited bool          // Await has waited for the turn of the next request
	began   time.Time     // when the server began to serve the request
	beganIn uint32        // the round at that time
	ready   chan struct{} // receives when a wait ends

	// The queue's mutex guards the following fields.
	held      bool      // the connection has a turn
	serving   bool      // a request is being served
	left      int       // requests that the turn still allows
	since     time.Time // when the turn or the wait began
	responded time.Time // when the last response was sent
	previous  *Turn
	next      *Turn
}

// Await may be called before the next request of a connection is read. If the client has probably sent the request
// already, but all turns are taken, Await waits for a turn. So the connection's goroutine is woken only once, for its
// turn. Otherwise it would also be woken before, for the request. Await reports whether it has waited.
func (t *Turn) Await(q *Queue) bool {
	if !t.prompt || t.needsNone(q) || !q.limited.Load() {
		return false
	}
	q.mu.Lock()
	if t.held || q.waiting.first == nil && q.active < q.limit {
		q.mu.Unlock()
		return false
	}
	q.wait(t, time.Now())
	t.mustEnd, t.awaited = true, true
	q.mu.Lock()
	t.serving, t.responded = false, time.Now()
	q.mu.Unlock()
	return true
}

// Begin is called before a request is served. It waits until the request may be served.
func (t *Turn) Begin(q *Queue) {
	first, awaited := !t.used, t.awaited
	t.used, t.awaited = true, false
	if !q.limited.Load() {
		t.Leave(q) // if the limit has ended since the last request, the connection may still have a turn
		return
	}
	if first { // the first request needs no turn, because many connections send only one request
		return
	}
	t.mustEnd = true
	now := time.Now()
	t.began, t.beganIn = now, q.round.Load()
	if t.needsNone(q) {
		return
	}
	q.mu.Lock()
	if awaited {
		q.waits++
	}
	t.prompt = !t.responded.IsZero() && now.Sub(t.responded) < promptTime
	if q.waiting.first == nil && q.active >= q.limit { // no sweep has ended old turns, because no connection waited
		q.expire(now)
	}
	switch {
	case t.held:
		t.serving = true
	case awaited && t.prompt: // it has waited for maxWait, and is now served without a turn
	case q.limit == 0: // the limit has just ended
	case q.active < q.limit && q.waiting.first == nil:
		q.grant(t, now)
	default:
		q.waits++
		q.wait(t, now)
		t.began, t.beganIn = time.Now(), q.round.Load()
		return
	}
	q.mu.Unlock()
}

// needsNone reports whether the connection is slow and needs no turn; see quickTime.
func (t *Turn) needsNone(q *Queue) bool { return t.slow && t.slowIn == q.round.Load() }

// End is called when the response was sent. The turn ends unless the connection is likely to send its next request
// promptly.
func (t *Turn) End(q *Queue) {
	if !t.mustEnd {
		return
	}
	now := time.Now()
	t.slow, t.slowIn = now.Sub(t.began) > quickTime, t.beganIn
	q.mu.Lock()
	defer q.mu.Unlock()
	t.responded = now
	if !t.held {
		t.mustEnd = false
		return
	}
	t.serving = false
	if t.left--; t.left == 0 || !t.prompt || t.slow || q.limit == 0 || q.isLate(now) {
		t.mustEnd = false
		q.end(t)
		q.advance()
	}
}

// Leave ends the turn of the connection, if it has one. It is called when the connection or the limit has ended.
func (t *Turn) Leave(q *Queue) {
	if !t.mustEnd {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t.mustEnd = false
	if t.held {
		q.end(t)
		q.advance()
	}
}

// A list is a linked list of turns. A turn is in at most one list.
type list struct {
	first, last *Turn
	length      int
}

// add appends a turn.
func (l *list) add(t *Turn) {
	t.previous, t.next = l.last, nil
	if l.last == nil {
		l.first = t
	} else {
		l.last.next = t
	}
	l.last = t
	l.length++
}

func (l *list) remove(t *Turn) {
	if t.previous == nil {
		l.first = t.next
	} else {
		t.previous.next = t.next
	}
	if t.next == nil {
		l.last = t.previous
	} else {
		t.next.previous = t.previous
	}
	t.previous, t.next = nil, nil
	l.length--
}
