package traffic

import (
	"math/bits"
	"sync/atomic"

	"github.com/headgate/headgate/engine"
)

// ringSize is the number of requests that are sampled in a second. If there are more, fewer clients are sampled. The
// memory of samples holds fewer for an hour.
const ringSize = 1024

// A sampledRequest is a request of a client in the sample.
type sampledRequest struct {
	ready atomic.Bool
	slotValues
	stats *ruleStats
	key   uint64
	at    int64 // µs
	cost  int64
}

// A sampleRing collects sampled requests for one second, without allocation.
type sampleRing struct {
	next   atomic.Uint32
	start  int64        // µs, when it became the current one
	filled atomic.Int64 // µs, when it became full; 0 if it is not
	list   [ringSize]sampledRequest
}

func (r *sampleRing) isFull() bool { return r.next.Load() >= ringSize }

// maxShifts bounds the shifts for one second, because a short burst may fill the ring.
const maxShifts = 4

// shifts returns how often the number of sampled clients has to be halved, so that the requests of a second fit.
func (r *sampleRing) shifts() int {
	filled := r.filled.Load()
	if filled == 0 {
		return 0
	}
	return min(max(bits.Len64(1e6/uint64(max(filled-r.start, 1))), 1), maxShifts)
}

// put adds a request. It returns false if the ring is full.
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

// drain calls f with each request, and empties the ring. Nothing may be added meanwhile.
func (r *sampleRing) drain(f func(*sampledRequest)) {
	for i := range min(r.next.Load(), ringSize) {
		if e := &r.list[i]; e.ready.Load() {
			f(e)
			e.ready.Store(false)
			e.stats = nil
		}
	}
	r.filled.Store(0)
	r.next.Store(0)
}
