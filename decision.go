package headgate

import (
	"math"
	"time"
)

// Never is the RetryAfter of a check that no amount of waiting lets pass.
const Never time.Duration = math.MaxInt64

// MaxDebt bounds what Charge can put on a key beyond its limit: MaxDebt times the limit's capacity.
const MaxDebt = 10

// A Decision is the answer to a Check.
type Decision struct {
	// Allowed reports whether the units were taken (for a Charge: whether they were within the limit).
	Allowed bool
	// Degraded tells that the store could not be asked and a policy decided instead.
	Degraded bool
	// Limit is the most that can be taken at once: the limit's Burst, else its Count.
	Limit int64
	// Remaining is what could still be taken now, after this decision. It is negative for a key in debt.
	Remaining int64
	// RetryAfter is, for a denied check, when the same check would pass if nobody else took anything: then, and not 1 µs
	// before. Zero when allowed; Never when the cost is above Limit. An estimate for concurrency, which frees its slots
	// when holders finish: it is when enough of them expire that are not renewed.
	RetryAfter time.Duration
	// ResetAfter is the time until the key is as good as new.
	ResetAfter time.Duration
	// Delay is, for an admitted check of a leaky-bucket, how long to hold the request so that what passes is spaced
	// evenly. To use the bucket as a meter, ignore it. A caller that gives up during the delay returns the units with
	// Receipt.Delayed(Delay).
	Delay time.Duration
	// Receipt is what Give needs to return these units.
	Receipt Receipt
}

// A Receipt says when units were taken, so that what is given back late adds nothing that time has given back already.
// The zero Receipt is that of a denied check.
type Receipt struct {
	// At is the time of the taking, in microseconds by the limiter's clock for that key. It is negative if a fallback
	// policy took the units: −1 if it counted nothing, else −2 minus the time by the fallback's clock.
	At int64
	// Units is how many were taken.
	Units int64
	// Lease names a place held under a concurrency limit. For other algorithms it is 0, or says of which part of a key that
	// is split the units are.
	Lease uint64
}

// Delayed returns the receipt with which a caller that is held for a delay returns its units if it gives up. The units
// leave a queue when their turn comes, not when they were taken: until then the queue drains only what came before them,
// and all of them can be returned.
func (r Receipt) Delayed(by time.Duration) Receipt {
	switch {
	case r.At >= 0:
		r.At += by.Microseconds()
	case r.At < -1:
		r.At -= by.Microseconds()
	}
	return r
}

// Tightest returns the decision that binds: of those denied, the one with the longest RetryAfter; if none is denied, the
// one with the least Remaining. The first wins a tie. It returns the zero Decision for none.
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

// Allowed reports whether every decision allows.
func Allowed(decisions []Decision) bool {
	for i := range decisions {
		if !decisions[i].Allowed {
			return false
		}
	}
	return true
}
