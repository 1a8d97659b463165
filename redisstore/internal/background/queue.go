package background

import "sync"

// A Queue runs a function for each item that is added. With one goroutine, it runs the function in the order of the
// items. Goroutines start when items are added and end when there are no items, so that an idle queue costs nothing. A
// Queue is safe for concurrent use.
type Queue[T any] struct {
	group      *Group
	run        func(T)
	size       int
	maxRunning int

	mu      sync.Mutex
	items   []T
	running int
}

// NewQueue returns a queue of at most size items. It calls run in at most maxRunning goroutines of the group.
func NewQueue[T any](g *Group, size, maxRunning int, run func(T)) *Queue[T] {
	return &Queue[T]{group: g, run: run, size: size, maxRunning: maxRunning}
}

// Add queues an item. It returns false if the queue is full, or if the group was stopped and no goroutine of the queue
// runs any more.
func (q *Queue[T]) Add(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) >= q.size {
		return false
	}
	if q.running < q.maxRunning && q.group.Start(q.work) {
		q.running++
	}
	if q.running == 0 {
		return false
	}
	q.items = append(q.items, item)
	return true
}

// work runs the function until there are no items, even after the group was stopped.
func (q *Queue[T]) work() {
	for {
		item, ok := q.next()
		if !ok {
			return
		}
		q.run(item)
	}
}

// next removes the first item. If there is none, it counts the calling goroutine as ended and returns false; the caller
// must then return.
func (q *Queue[T]) next() (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		q.items = nil
		q.running--
		return item, false
	}
	item = q.items[0]
	q.items = q.items[1:]
	return item, true
}
