package headgate

import (
	"math"
	"time"
)

// Never is the RetryAfter of a check that can never pass.
const Never time.Duration = math.MaxInt64

// MaxDebt is the largest debt of a key after Charge, as a multiple of the limit's capacity.
const MaxDebt = 10

// A Decision is the answer to a Check.
type Decision struct {
	// Allowed reports whether the units were taken (for a Charge: whether they were within the limit).
	Allowed bool
	// Degraded reports whether a policy decided because the store was unreachable.
	Degraded bool
	// Limit is the largest cost that can be taken at once: the limit's Burst, or its Count if it has no Burst.
	Limit int64
	// Remaining is how many units can still be taken after this decision. It is negative for a key in debt.
	Remaining int64
	// RetryAfter is the time until a denied check would pass, exact to 1 µs, if nothing else is taken. It is 0 for an
	// allowed check, and Never for a cost above Limit. For concurrency it is an estimate: the time until enough slots
	// expire, if none is renewed or released.
	RetryAfter time.Duration
	// ResetAfter is the time until all consumption has drained or expired, if nothing else is taken.
	ResetAfter time.Duration
	// Delay is how long to hold a request that a leaky-bucket admitted, so that requests are spaced evenly. To use the
	// bucket as a meter, ignore Delay. A caller that gives up during the delay calls Give with Receipt.Delayed(Delay).
	Delay time.Duration
	// Receipt is the receipt to pass to Give when these units are given back.
	Receipt Receipt
}

// A Receipt says when units were taken, so that Give does not return units that have drained or expired since. A denied
// check has the zero Receipt.
type Receipt struct {
	// At is when the units were taken, in microseconds by the limiter's clock for that key. If a failure policy took the
	// units, At is negative: −1 if the policy counted nothing, otherwise −2 minus the time by the policy's clock.
	At int64
	// Units is how many units were taken.
	Units int64
	// Lease identifies a slot held under a concurrency limit. For other algorithms it is the number of the part of a
	// split key from which the units were taken, or 0 if the key is not split.
	Lease uint64
}

// Delayed returns the receipt for a caller that gives up while it waits for Decision.Delay. The units of r start to
// drain only when the delay ends, so until then all of them can be given back. With r itself, Give would assume that
// they drain from the time at which they were taken, and give back fewer.
func (r Receipt) Delayed(delay time.Duration) Receipt {
	switch {
	case r.At >= 0:
		r.At += delay.Microseconds()
	case r.At < -1:
		r.At -= delay.Microseconds()
	}
	return r
}

// Tightest returns the most restrictive decision: the denial with the longest RetryAfter or, if all are allowed, the
// decision with the least Remaining. The first one wins a tie. Without decisions it returns the zero Decision.
func Tightest(decisions []Decision) Decision {
	if len(decisions) == 0 {
		return Decision{}
	}
	tightest := &decisions[0]
	for i := range decisions {
		if decisions[i].TighterThan(tightest) {
			tightest = &decisions[i]
		}
	}
	return *tightest
}

// TighterThan reports whether a decision is more restrictive than another. A denial is more restrictive than an allowed
// decision. Of two denials, the one with the longer RetryAfter is more restrictive; of two allowed decisions, the one
// with the smaller Remaining.
func (d *Decision) TighterThan(other *Decision) bool {
	switch {
	case d.Allowed != other.Allowed:
		return other.Allowed
	case !d.Allowed:
		return d.RetryAfter > other.RetryAfter
	default:
		return d.Remaining < other.Remaining
	}
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
