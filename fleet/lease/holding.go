package lease

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet"
)

// A holding is what this node has of one key under one limit.
type holding struct {
	hash       uint64
	key, owner string
	limit      headgate.Limit
	capacity   int64
	every      time.Duration // how often the store may be asked, in the long run
	next       atomic.Pointer[holding]

	// For those who only look.
	front  atomic.Pointer[grant]  // where to try first
	denial atomic.Pointer[denial] // nil for none
	denied atomic.Int64           // units that were denied here, ever

	mu     sync.Mutex
	gone   bool     // it is not in the table any more
	grants []*grant // the oldest first; those that are used up stay until they expire, for who gives back
	owed   owing    // to the store

	line    []*waiter
	queued  int64 // units that they want
	calling bool  // a call is under way
	gen     int   // what was asked for before a reset does not count
	// resetting is how many resets are under way: nothing is asked for until they are over.
	resetting int
	slotAt    time.Duration
	timer     fleet.Timer   // for the next call, if callers wait for it
	scarce    bool          // the last answer was that there is not enough for all
	left      int64         // what the store had left then
	leftAt    time.Duration // when it was asked; 0 if it never was
	share     int64         // which part of what remains is asked for, 0 if that is not known yet: see contend

	away    time.Duration // until when the source is not asked, because it failed
	slow    time.Duration // until when it is asked for every check, because its answers take too long
	lastErr error

	used    int64 // units of grants that are over
	sampled time.Duration
	sample  int64
	demand  float64 // units a second, at its peak
	mean    float64 // and on average

	inWheel bool
	visited int64         // what had been demanded at the last visit
	busyAt  time.Duration // when that was more than at the visit before
}

// How often the store is asked for a key: callsEvery in the long run, and callsAtOnce if it was left alone before.
const (
	callsEvery  = time.Second / 16
	callsAtOnce = 12 // so that one who takes all that is left at once, in ever smaller grants, gets it
)

// callsFor returns how often the store may be asked for units of a limit. If there is less time between calls, it is
// because otherwise the limit could not be used: the bucket would be full before somebody takes from it, or the window over
// before all of it is handed out.
func callsFor(l headgate.Limit) time.Duration {
	switch l.Algorithm {
	case headgate.FixedWindow, headgate.SlidingWindow:
		return min(callsEvery, l.Period/16)
	default:
		refill := float64(l.Period) * float64(l.Capacity()) / float64(l.Count)
		return time.Duration(min(float64(callsEvery), refill/2))
	}
}

// insert adds a holding for a check, nil if there is no room. What is held under other limits of the key goes back first.
func (l *Limiter) insert(ctx context.Context, hash uint64, c *headgate.Check) *holding {
	now := l.clock.Now()
	made := &holding{
		hash: hash, key: strings.Clone(c.Key), owner: strings.Clone(c.Owner), limit: c.Limit, capacity: c.Limit.Capacity(),
		every: callsFor(c.Limit), sampled: now, slotAt: now - callsAtOnce*callsEvery, inWheel: true,
	}
	s := l.table.shard(hash)
	s.mu.Lock()
	h := l.table.add(s, made)
	s.mu.Unlock()
	if h == made {
		l.wheel.add(h, l.options.TTL)
		l.handBackOthers(ctx, h)
	}
	return h
}

// named returns a check with strings that may be kept.
func (h *holding) named(c *headgate.Check) headgate.Check {
	check := *c
	check.Key, check.Owner = h.key, h.owner
	return check
}

// check returns what the source is asked for on behalf of the holding.
func (h *holding) check(n int64) headgate.Check {
	return headgate.Check{Key: h.key, Owner: h.owner, Limit: h.limit, Cost: n}
}

func (h *holding) failure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lastErr
}

// held returns how many units can be used now.
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

// idle tells that nothing is lost if the holding is forgotten: nobody waits, and it has no units.
func (h *holding) idle() bool {
	if h.gone || h.calling || h.resetting > 0 || len(h.line) > 0 || h.owed.units > 0 {
		return false
	}
	for _, g := range h.grants {
		if g.left.Load() > 0 {
			return false
		}
	}
	return true
}

// nextSlot returns when the store may be asked again; it is past if it may be now.
func (h *holding) nextSlot() time.Duration { return h.slotAt - (callsAtOnce-1)*h.every }

// spend notes a call.
func (h *holding) spend(now time.Duration) { h.slotAt = max(h.slotAt, now) + h.every }

// takeHeld takes n units from what is held: from one grant if that has them, else from several. The receipt is that of the
// oldest, for which the least is credited.
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
	if missing > 0 { // others took from the one in front meanwhile
		for i, g := range h.grants {
			g.put(taken[i])
		}
		return d, false
	}
	oldest.describe(&d, h.capacity, h.usable(now), now, n)
	return d, true
}

// total returns how many units were ever wanted.
func (h *holding) total() int64 {
	n := h.used + h.denied.Load() + h.queued
	for _, g := range h.grants {
		n += g.size - max(0, g.left.Load())
	}
	return n
}

const (
	shortSample = 5 * time.Millisecond   // less says little about a rate
	fade        = 250 * time.Millisecond // in which a peak of demand is forgotten, by two thirds
)

// expected returns how many units will be wanted within a time: as many as at the peak of late, but if the store has little
// left, as on average, so that less is held in vain.
func (h *holding) expected(in time.Duration) int64 {
	rate := h.demand
	if 2*h.left < h.capacity && h.mean > 0 {
		rate = h.mean
	}
	units := rate * in.Seconds()
	if units < 0.5 {
		return 0
	}
	return int64(min(math.Ceil(units), float64(h.capacity)))
}

// measure brings the estimate of demand to the present. It goes up with a peak at once, and down slowly.
func (h *holding) measure(now time.Duration) {
	elapsed := now - h.sampled
	total := h.total()
	rate := float64(max(0, total-h.sample)) / max(elapsed, shortSample).Seconds()
	if rate >= h.demand {
		h.demand = rate
	}
	if elapsed < shortSample {
		return
	}
	part := 1 - math.Exp(-float64(elapsed)/float64(fade))
	h.demand += (rate - h.demand) * part
	h.mean += (rate - h.mean) * part
	h.sampled, h.sample = now, total
}
