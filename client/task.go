package client

import (
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/proto/grpcwire/wirev1"
)

// A task is a call with a waiting caller.
type task struct {
	done       chan struct{} // receives one value when the task is done
	deadline   time.Time
	idempotent bool // the task may be sent again after a failure
	size       int  // result of bytesOnWire, set when the task is queued

	// Guarded by the batcher's lock.
	sent      bool // it was sent, and may be in flight
	abandoned bool // its caller stopped waiting
	settled   bool // it is done, and its caller is about to be woken

	// For RateLimit.
	request  wirev1.RateLimitRequest
	decision Decision

	// For calls of the store.
	verb      wirev1.Verb
	checks    []headgate.Check
	single    [1]headgate.Check // backing array of checks if there is only one check
	receipt   headgate.Receipt
	decisions []headgate.Decision

	err error
}

var tasks = sync.Pool{New: func() any { return &task{done: make(chan struct{}, 1)} }}

func newTask() *task { return tasks.Get().(*task) }

// free resets the fields that not every call sets, and makes the task available for reuse. The task must be done.
func (t *task) free() {
	t.sent, t.abandoned, t.settled, t.idempotent, t.err = false, false, false, false, nil
	t.checks, t.single, t.receipt, t.verb = nil, [1]headgate.Check{}, headgate.Receipt{}, 0
	t.decisions = t.decisions[:0]
	tasks.Put(t)
}

// maxBatchBytes is the maximum size of a batch. The service accepts messages of 1 MiB by default. A larger batch
// fails as a whole.
const maxBatchBytes = 512 << 10

// bytesOnWire returns the approximate size of a task in a message.
func (t *task) bytesOnWire() int {
	const overhead = 64 // numbers, and the lengths of strings
	size := overhead
	for i := range t.checks {
		size += 2*overhead + len(t.checks[i].Key) + len(t.checks[i].Owner)
	}
	if len(t.checks) > 0 {
		return size
	}
	q := &t.request
	size += len(q.Rule) + len(q.User) + len(q.IP) + len(q.APIKey)
	for i := range q.Attributes {
		const prefixes = 8
		size += prefixes + len(q.Attributes[i].Name) + len(q.Attributes[i].Value)
	}
	return size
}

// weight is the number of decisions that a task adds to a batch.
func (t *task) weight() int { return max(len(t.checks), 1) }

// fail ends an unsent task with err.
func (t *task) fail(err error) {
	t.err, t.settled = err, true
	t.done <- struct{}{}
}
