package traffic

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/headgate/headgate/engine"
)

// ringSize is the maximum number of requests that are sampled in a second. If there are more, fewer clients are sampled
// in the next seconds.
const ringSize = 1024

// A sampledRequest is a request of a client in the sample.
type sampledRequest struct {
	ready atomic.Bool // put has set the other fields
	clientValues
	stats *ruleStats
	key   uint64
	at    int64 // µs
	cost  int64
}

// A sampleRing collects sampled requests for one second, without allocation.
type sampleRing struct {
	next   atomic.Uint32
	start  int64        // time in µs at which it became the current ring
	filled atomic.Int64 // time in µs at which it became full, 0 if it did not
	list   [ringSize]sampledRequest
}

func (r *sampleRing) isFull() bool { return r.next.Load() >= ringSize }

// maxHalvings is the maximum result of halvings. It is low because a short burst may fill the ring.
const maxHalvings = 4

// halvings returns how often the number of sampled clients must be halved for the requests of a second to fit.
func (r *sampleRing) halvings() int {
	filled := r.filled.Load()
	if filled == 0 {
		return 0
	}
	return min(max(bits.Len64(1e6/uint64(max(filled-r.start, 1))), 1), maxHalvings)
}

// put adds a request. It returns false if the ring is full or being drained.
func (r *sampleRing) put(stats *ruleStats, key uint64, at int64, c *engine.ClientView) bool {
	i := r.next.Add(1) - 1
	if i >= ringSize {
		return false
	}
	if i == ringSize-1 {
		r.filled.Store(at)
	}
	e := &r.list[i]
	e.stats, e.key, e.at, e.cost = stats, key, at, c.Cost
	e.set(c)
	e.ready.Store(true)
	return true
}

// drain calls f with each request, and empties the ring. Requests may be added during the call, but only one goroutine
// may call drain.
func (r *sampleRing) drain(f func(*sampledRequest)) {
	// From now on the ring counts as full, so put adds no request until next is 0 again.
	for i := range min(r.next.Swap(ringSize), ringSize) {
		e := &r.list[i]
		for !e.ready.Load() {
			runtime.Gosched() // put is setting the fields right now
		}
		f(e)
		e.ready.Store(false)
		e.stats = nil
	}
	r.filled.Store(0)
	r.next.Store(0)
}
