package client

import (
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/grpcwire/wirev1"
)

// A task is a call that somebody waits for.
type task struct {
	done     chan struct{} // holds one when it is done
	deadline time.Time
	safe     bool // it may be sent again
	size     int  // about how many bytes it takes on the wire

	// Under the batcher's lock.
	sent    bool // it is on its way, or was
	left    bool // nobody waits for it any more
	settled bool // it is done, and whoever waits is about to be told

	request wirev1.RateLimitRequest // of RateLimit
	answer  Answer

	verb      wirev1.Verb // of the store
	checks    []headgate.Check
	one       [1]headgate.Check
	receipt   headgate.Receipt
	decisions []headgate.Decision

	err error
}

var tasks = sync.Pool{New: func() any { return &task{done: make(chan struct{}, 1)} }}

func newTask() *task { return tasks.Get().(*task) }

// free lets the task be used again. Whoever calls it has been told that it is done.
func (t *task) free() {
	t.sent, t.left, t.settled, t.safe, t.err = false, false, false, false, nil
	t.checks, t.one, t.receipt, t.verb = nil, [1]headgate.Check{}, headgate.Receipt{}, 0
	t.decisions = t.decisions[:0]
	tasks.Put(t)
}

// maxBytes is how much travels together at most. The service reads 1 MiB at a time unless told otherwise, and what is too much
// for it fails for all that travel with it.
const maxBytes = 512 << 10

// bytes returns about how many bytes a task takes on the wire.
func (t *task) bytes() int {
	const numbers = 64 // and what is before texts
	size := numbers
	for i := range t.checks {
		size += 2*numbers + len(t.checks[i].Key) + len(t.checks[i].Owner)
	}
	if len(t.checks) > 0 {
		return size
	}
	q := &t.request
	size += len(q.Rule) + len(q.User) + len(q.IP) + len(q.APIKey)
	for i := range q.Attributes {
		const before = 8
		size += before + len(q.Attributes[i].Name) + len(q.Attributes[i].Value)
	}
	return size
}

// weight is what a task adds to a batch.
func (t *task) weight() int { return max(len(t.checks), 1) }

// fail tells whoever waits for a task that was not sent.
func (t *task) fail(err error) {
	t.err, t.settled = err, true
	t.done <- struct{}{}
}
