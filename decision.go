package headgate

import (
	"math"
	"time"
)

// Never is the RetryAfter of a check that can never pass.
const Never time.Duration = math.MaxInt64

// MaxDebt bounds the debt of a key after Charge, as a multiple of the limit's capacity.
const MaxDebt = 10

// A Decision is the answer to a Check.
type Decision struct {
	// Allowed reports whether the units were taken (for a Charge: whether they were within the limit).
	Allowed bool
	// Degraded reports whether a policy decided because the store was unreachable.
	Degraded bool
	// Limit is the most that can be taken at once: the limit's Burst, else its Count.
	Limit int64
	// Remaining is how many units can still be taken after this decision. It is negative for a key in debt.
	Remaining int64
	// RetryAfter is, for a denied check, the time after which the same check passes if nothing else is taken, and not 1 µs
	// earlier. Zero when allowed; Never when the cost is above Limit. For concurrency it is an estimate: the time until
	// enough slots expire, if none is renewed or released.
	RetryAfter time.Duration
	// ResetAfter is the time until nothing is consumed, if nothing else is taken.
	ResetAfter time.Duration
	// Delay is, for an admitted check of a leaky-bucket, how long to hold the request so that requests are spaced evenly.
	// To use the bucket as a meter, ignore it. A caller that gives up during the delay gives back the units with
	// Receipt.Delayed(Delay).
	Delay time.Duration
	// Receipt is what Give needs to return these units.
	Receipt Receipt
}

// A Receipt says when units were taken, so that Give does not return units that have drained or expired since. The zero
// Receipt is that of a denied check.
type Receipt struct {
	// At is when the units were taken, in microseconds by the limiter's clock for that key. It is negative if a fallback
	// policy took the units: −1 if it counted nothing, else −2 minus the time by the fallback's clock.
	At int64
	// Units is how many were taken.
	Units int64
	// Lease is the ID of a slot held under a concurrency limit. For other algorithms it is the part of a split key that
	// the units were taken from, or 0.
	Lease uint64
}

// Delayed returns the receipt for a caller that gives up while it waits for Decision.Delay. The units leave the bucket
// when the delay ends, not when they were taken: until then only earlier units drain, and all of these can be given
// back.
func (r Receipt) Delayed(by time.Duration) Receipt {
	switch {
	case r.At >= 0:
		r.At += by.Microseconds()
	case r.At < -1:
		r.At -= by.Microseconds()
	}
	return r
}

// Tightest returns the most restrictive decision: the denial with the longest RetryAfter; if none is denied, the
// decision with the least Remaining. The first wins a tie. It returns the zero Decision if there are none.
func Tightest(decisions []Decision) Decision {
	var tightest Decision
	for i, d := range decisions {
		switch {
		case i == 0,
			tightest.Allowed && !d.Allowed,
			!d.Allowed && d.RetryAfter > tightest.RetryAfter,
			tightest.Allowed && d.Allowed && d.Remaining < tightest.Remaining:
			tightest = d
		}
	}
	return tightest
}

// Allowed reports whether all decisions are allowed.
func Allowed(decisions []Decision) bool {
	for i := range decisions {
		if !decisions[i].Allowed {
			return false
		}
	}
	return true
}
