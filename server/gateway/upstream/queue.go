package upstream

// A grant is what a waiter gets: a connection, an error, or, if both are nil, the permission to open a connection.
type grant struct {
	conn *conn
	err  error
}

// A waiter is a request that waits for a connection.
type waiter struct {
	granted    chan grant // with a buffer for the one grant, so that granting does not block
	prev, next *waiter
	queued     bool
}

func newWaiter() *waiter { return &waiter{granted: make(chan grant, 1)} }

// A queue has the waiters, first come first served.
type queue struct {
	first, last *waiter
	length      int
}

func (q *queue) add(w *waiter) {
	w.queued = true
	w.prev = q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
	q.length++
}

// take removes and returns the first waiter, nil if there is none.
func (q *queue) take() *waiter {
	w := q.first
	if w != nil {
		q.remove(w)
	}
	return w
}

// remove removes a waiter, and reports whether it was still queued.
func (q *queue) remove(w *waiter) bool {
	if !w.queued {
		return false
	}
	w.queued = false
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	q.length--
	return true
}
