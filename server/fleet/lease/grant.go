package lease

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// A grant has units that the store has granted to this node. Times are by this node's clock, unless a field says
// otherwise.
type grant struct {
	left     atomic.Int64 // unused units; negative after end was called
	renewing atomic.Bool  // more units were requested because this grant is nearly used up or expires

	size        int64
	expires     time.Duration
	renewAt     time.Duration // when to request more units, so that they arrive before this grant expires
	lowWater    int64         // more units are requested when at most this number is left; −1 for never
	requestedAt time.Duration
	at          int64         // when the store granted the units, by the store's clock, in µs
	lease       uint64        // see headgate.Receipt
	remaining   int64         // units remaining in the store after the grant
	resetAt     time.Duration // when all consumed units have refilled
}

// endedUnits is the value of left after the end of a grant.
const endedUnits = -1 << 62

// take takes n units, and returns how many are left.
func (g *grant) take(n int64) (left int64, ok bool) {
	for {
		left = g.left.Load()
		if left < n {
			return left, false
		}
		if g.left.CompareAndSwap(left, left-n) {
			return left - n, true
		}
	}
}

// takeSome takes up to n units, and returns the number of units taken.
func (g *grant) takeSome(n int64) int64 {
	for {
		left := g.left.Load()
		taken := min(left, n)
		if taken <= 0 {
			return 0
		}
		if g.left.CompareAndSwap(left, left-taken) {
			return taken
		}
	}
}

// putBack puts back up to n taken units, and returns the number of units put back.
func (g *grant) putBack(n int64) int64 {
	for {
		left := g.left.Load()
		returned := min(g.size-left, n)
		if left < 0 || returned <= 0 {
			return 0
		}
		if g.left.CompareAndSwap(left, left+returned) {
			return returned
		}
	}
}

// end ends the grant, and returns the unused units.
func (g *grant) end() int64 { return max(0, g.left.Swap(endedUnits)) }

// receipt returns the receipt of n units.
func (g *grant) receipt(n int64) headgate.Receipt {
	return headgate.Receipt{At: g.at, Units: n, Lease: g.lease}
}

// describe sets the decision on n taken units.
func (g *grant) describe(d *headgate.Decision, capacity, left int64, now time.Duration, n int64) {
	*d = headgate.Decision{
		Allowed: true, Limit: capacity, Remaining: min(capacity, g.remaining+left),
		ResetAfter: wholeMicros(g.resetAt - now), Receipt: g.receipt(n),
	}
}

// A denial denies checks without a store call.
type denial struct {
	cost      int64         // checks with at least this cost are denied
	until     time.Duration // when the denial ends
	retryAt   time.Duration // when such a check may be allowed; not before until
	resetAt   time.Duration
	remaining int64
}

// describe sets the decision on n denied units.
func (x *denial) describe(d *headgate.Decision, capacity int64, now time.Duration, n int64) {
	*d = headgate.Decision{
		Limit: capacity, Remaining: min(x.remaining, n-1),
		RetryAfter: max(time.Microsecond, wholeMicros(x.retryAt-now)), ResetAfter: wholeMicros(x.resetAt - now),
	}
}

// wholeMicros rounds a duration up to whole microseconds, the unit of the store. Negative durations become 0.
func wholeMicros(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}
