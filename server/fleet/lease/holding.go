package lease

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
)

// A holding has the granted units of one key under one limit on this node, the callers that wait for more units, and
// the latest information about the store and the demand.
type holding struct {
	hash       uint64
	key, owner string
	limit      headgate.Limit
	capacity   int64
	next       atomic.Pointer[holding] // next holding in the same bucket of the table

	// The fields up to mu are read without the lock.
	front  atomic.Pointer[grant]  // the grant to try first
	denial atomic.Pointer[denial] // nil if none is known
	denied atomic.Int64           // total of denied units

	mu         sync.Mutex
	removed    bool     // the holding was removed from the table
	grants     []*grant // the oldest first; used-up grants stay until they expire, because units may be given back
	unreturned unusedUnits
	queue      waitQueue
	calls      callState
	store      storeState
	fault      faultState
	demand     demandState
	visits     visitState
}

// A waitQueue has the callers that wait for units.
type waitQueue struct {
	waiters []*waiter
	units   int64 // total of the units that the waiters want
}

// A callState determines when the store may be called for a key.
type callState struct {
	interval   time.Duration // the minimum of the average time between calls
	slotAt     time.Duration // see nextSlot
	timer      clock.Timer   // timer of the next call, if callers wait for it
	running    bool
	generation int // increases with each reset; units requested before a reset do not count
	resets     int // number of resets in progress; no call starts until they end
}

// A storeState has the latest results of store calls.
type storeState struct {
	scarce      bool          // the store granted less than was wanted
	left        int64         // units remaining in the store
	requestedAt time.Duration // when the store received the request; 0 if never
	share       int64         // at most 1/share of the remaining units are requested; 0 if not known. See updateShare
}

// A faultState describes failed and slow calls of the store, after which no grants are requested for a while.
type faultState struct {
	until     time.Duration // after a failure, the store is not called until this time
	slowUntil time.Duration // after a late response, the store is called for every check until this time
	err       error
}

// A demandState estimates how many units are requested.
type demandState struct {
	used      int64 // units of grants that have ended
	sampledAt time.Duration
	sampled   int64   // the result of holding.total at sampledAt
	peak      float64 // units per second
	mean      float64 // units per second
}

// A visitState is the state of visits. The timer wheel visits each holding regularly, to return unused units and to
// remove unused holdings.
type visitState struct {
	scheduled bool
	total     int64         // the result of holding.total at the last visit
	busyAt    time.Duration // time of the last visit at which the total had grown
}

const (
	// defaultCallInterval is the minimum of the average time between calls for a key.
	defaultCallInterval = time.Second / 16
	// callBurst is the number of calls that may follow each other immediately after a pause. Each grant is only a part of
	// the remaining units, so a node needs several calls to get all units.
	callBurst = 12
)

// callInterval returns the minimum of the average time between calls for a limit. It is shorter than
// defaultCallInterval for limits that could otherwise not be used fully, because the bucket would be full between
// calls, or because the window would end too early.
func callInterval(l headgate.Limit) time.Duration {
	switch l.Algorithm {
	case headgate.FixedWindow, headgate.SlidingWindow:
		return min(defaultCallInterval, l.Period/16)
	default:
		refill := float64(l.Period) * float64(l.Capacity()) / float64(l.Count)
		return time.Duration(min(float64(defaultCallInterval), refill/2))
	}
}

// insert adds a holding for a check. It returns nil if there is no room. If this node holds units of the key under
// other limits, insert first returns them to the store.
func (l *Limiter) insert(ctx context.Context, hash uint64, c *headgate.Check) *holding {
	now := l.clock.Elapsed()
	created := &holding{
		hash: hash, key: strings.Clone(c.Key), owner: strings.Clone(c.Owner), limit: c.Limit, capacity: c.Limit.Capacity(),
		calls:  callState{interval: callInterval(c.Limit), slotAt: now - callBurst*defaultCallInterval},
		demand: demandState{sampledAt: now}, visits: visitState{scheduled: true},
	}
	s := l.table.shard(hash)
	s.mu.Lock()
	h := l.table.add(s, created)
	s.mu.Unlock()
	if h == created {
		l.wheel.add(h, l.options.TTL)
		l.returnOtherLimits(ctx, h)
	}
	return h
}

// ownStrings returns the check with the holding's copies of its strings. The source may keep these.
func (h *holding) ownStrings(c *headgate.Check) headgate.Check {
	check := *c
	check.Key, check.Owner = h.key, h.owner
	return check
}

// check returns a check of n units, for calls of the source.
func (h *holding) check(n int64) headgate.Check {
	return headgate.Check{Key: h.key, Owner: h.owner, Limit: h.limit, Cost: n}
}

func (h *holding) lastError() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fault.err
}

// held returns the units that can be used now.
func (h *holding) held(now time.Duration) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.usable(now)
}

func (h *holding) usable(now time.Duration) int64 {
	var n int64
	for _, g := range h.grants {
		if now < g.expires {
			n += max(0, g.left.Load())
		}
	}
	return n
}

// idle reports whether the holding can be removed without a loss: it has no waiters, no calls and no units.
func (h *holding) idle() bool {
	if h.removed || h.calls.running || h.calls.resets > 0 || len(h.queue.waiters) > 0 || h.unreturned.units > 0 {
		return false
	}
	for _, g := range h.grants {
		if g.left.Load() > 0 {
			return false
		}
	}
	return true
}

// nextSlot returns when the store may be called again. A time in the past means now. Calls are limited as by gcra:
// slotAt is the theoretical arrival time.
func (h *holding) nextSlot() time.Duration { return h.calls.slotAt - (callBurst-1)*h.calls.interval }

// countCall counts a call, so that the next slot is later.
func (h *holding) countCall(now time.Duration) {
	h.calls.slotAt = max(h.calls.slotAt, now) + h.calls.interval
}

// takeHeld takes n held units, from one grant if possible, otherwise from several. The receipt is for the oldest of
// these grants, because the store credits the fewest units for it when the units are given back.
func (h *holding) takeHeld(now time.Duration, n int64) (headgate.Decision, bool) {
	var d headgate.Decision
	for _, g := range h.grants {
		if now >= g.expires {
			continue
		}
		if left, ok := g.take(n); ok {
			h.front.Store(g)
			g.describe(&d, h.capacity, left, now, n)
			return d, true
		}
	}
	if h.usable(now) < n {
		return d, false
	}
	missing := n
	taken := make([]int64, len(h.grants))
	var oldest *grant
	for i, g := range h.grants {
		if now < g.expires && missing > 0 {
			if taken[i] = g.takeSome(missing); taken[i] > 0 && oldest == nil {
				oldest = g
			}
			missing -= taken[i]
		}
	}
	if missing > 0 { // other callers, which do not need the lock, have taken units
		for i, g := range h.grants {
			g.putBack(taken[i])
		}
		return d, false
	}
	oldest.describe(&d, h.capacity, h.usable(now), now, n)
	return d, true
}

// total returns how many units were requested since the holding was created.
func (h *holding) total() int64 {
	n := h.demand.used + h.denied.Load() + h.queue.units
	for _, g := range h.grants {
		n += g.size - max(0, g.left.Load())
	}
	return n
}

// putBack puts units back into the grants of a receipt, and returns the number of units put back.
func (h *holding) putBack(r headgate.Receipt) (n int64) {
	for _, g := range h.grants {
		if g.at == r.At && g.lease == r.Lease && n < r.Units {
			n += g.putBack(r.Units - n)
		}
	}
	return n
}

// expected estimates how many units will be requested within a time. It uses the recent peak of demand. If the store
// has less than half of the capacity left, it uses the mean demand, so that nodes hold fewer unused units.
func (h *holding) expected(in time.Duration) int64 {
	rate := h.demand.peak
	if 2*h.store.left < h.capacity && h.demand.mean > 0 {
		rate = h.demand.mean
	}
	units := rate * in.Seconds()
	if units < 0.5 {
		return 0
	}
	return int64(min(math.Ceil(units), float64(h.capacity)))
}

const (
	shortSample = 5 * time.Millisecond   // shorter samples do not lower the estimated rate
	demandDecay = 250 * time.Millisecond // time in which the estimated peak falls by two thirds
)

// measure updates the estimate of demand. The estimated peak rises immediately with the demand, and falls slowly.
func (h *holding) measure(now time.Duration) {
	elapsed := now - h.demand.sampledAt
	total := h.total()
	rate := float64(max(0, total-h.demand.sampled)) / max(elapsed, shortSample).Seconds()
	if rate >= h.demand.peak {
		h.demand.peak = rate
	}
	if elapsed < shortSample {
		return
	}
	part := 1 - math.Exp(-float64(elapsed)/float64(demandDecay))
	h.demand.peak += (rate - h.demand.peak) * part
	h.demand.mean += (rate - h.demand.mean) * part
	h.demand.sampledAt, h.demand.sampled = now, total
}
