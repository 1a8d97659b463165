package background

import "sync"

// A Queue runs a function for each item that is added, in the order of the items if it has one goroutine. Goroutines
// start when items come, and end when there are none, so that an idle queue costs nothing. It is safe for concurrent use.
type Queue[T any] struct {
	group *Group
	run   func(T)
	size  int
	most  int

	mu      sync.Mutex
	items   []T
	running int
}

// NewQueue returns a queue of at most size items, which runs a function in at most so many goroutines of the group.
func NewQueue[T any](g *Group, size, goroutines int, run func(T)) *Queue[T] {
	return &Queue[T]{group: g, run: run, size: size, most: goroutines}
}

// Add queues an item. It returns false if the queue is full, or if the group was stopped and nothing runs.
func (q *Queue[T]) Add(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) >= q.size {
		return false
	}
	if q.running < q.most && q.group.Start(q.work) {
		q.running++
	}
	if q.running == 0 {
		return false
	}
	q.items = append(q.items, item)
	return true
}

// work runs the function until there are no items, also after the group was stopped.
func (q *Queue[T]) work() {
	for {
		item, ok := q.next()
		if !ok {
			return
		}
		q.run(item)
	}
}

// next removes the first item. If there is none, the goroutine that asks must end.
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
