package lease

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// A grant is units that the store has given to this node. Times are the node's own.
type grant struct {
	left     atomic.Int64 // below 0 when it is over
	renewing atomic.Bool  // more was asked for because this runs out

	size      int64
	expires   time.Duration
	renewAt   time.Duration // when to ask for more, so that there is no gap
	low       int64         // and how many are left when it is time for that; −1 for never
	asked     time.Duration
	at        int64 // by the store's clock, in µs
	lease     uint64
	remaining int64         // what the store had besides
	resetAt   time.Duration // when the key is as good as new
}

// over is what is left of a grant that is.
const over = -1 << 62

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

// takeSome takes as many units as there are, up to n.
func (g *grant) takeSome(n int64) int64 {
	for {
		left := g.left.Load()
		some := min(left, n)
		if some <= 0 {
			return 0
		}
		if g.left.CompareAndSwap(left, left-some) {
			return some
		}
	}
}

// put takes back units, as many as are missing, up to n, and returns how many those were.
func (g *grant) put(n int64) int64 {
	for {
		left := g.left.Load()
		some := min(g.size-left, n)
		if left < 0 || some <= 0 {
			return 0
		}
		if g.left.CompareAndSwap(left, left+some) {
			return some
		}
	}
}

// end ends the grant, and returns how many units were left.
func (g *grant) end() int64 { return max(0, g.left.Swap(over)) }

// receipt returns that of n units.
func (g *grant) receipt(n int64) headgate.Receipt {
	return headgate.Receipt{At: g.at, Units: n, Lease: g.lease}
}

// describe fills in the decision about n units that were taken and left so many.
func (g *grant) describe(d *headgate.Decision, capacity, left int64, now time.Duration, n int64) {
	*d = headgate.Decision{
		Allowed: true, Limit: capacity, Remaining: min(capacity, g.remaining+left),
		ResetAfter: wholeMicros(g.resetAt - now), Receipt: g.receipt(n),
	}
}

// A denial is until when checks of that cost and more are denied without asking.
type denial struct {
	cost      int64
	until     time.Duration
	retryAt   time.Duration // not before until
	resetAt   time.Duration
	remaining int64
}

// describe fills in the decision about n units that are denied.
func (x *denial) describe(d *headgate.Decision, capacity int64, now time.Duration, n int64) {
	*d = headgate.Decision{
		Limit: capacity, Remaining: min(x.remaining, n-1),
		RetryAfter: max(time.Microsecond, wholeMicros(x.retryAt-now)), ResetAfter: wholeMicros(x.resetAt - now),
	}
}

// wholeMicros rounds a time up to what the store counts in. It is not below 0.
func wholeMicros(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}
