package headgate

import (
	"context"
	"fmt"
	"strconv"
)

// A BoundAll is a Limiter together with several limits that all apply to each key, such as 10 a second and 1000
// a day. Create one with [BindAll]. It is safe for concurrent use.
type BoundAll struct {
	limiter Limiter
	limits  []Limit
	policy  Policy
}

// BindAll returns a BoundAll, which applies all of the limits to each key: a request takes units from all of them or
// from none.
//
// The first limit counts "alice" under the key "alice/1", the second under "alice/2", and so on. A changed limit keeps
// its consumption if it keeps its position, so add new limits at the end. Do not use the same key with two BoundAlls of
// one Limiter: they would share its counters.
//
// BindAll returns an *InputError if there are no limits or more than MaxChecks. If a limit is invalid, it returns an
// error that wraps the error of [Bind].
func BindAll(l Limiter, limits ...Limit) (*BoundAll, error) {
	if len(limits) < 1 || len(limits) > MaxChecks {
		return nil, badLimit("limits", strconv.Itoa(len(limits)), "1 to "+strconv.Itoa(MaxChecks)+" limits")
	}
	for i, limit := range limits {
		if _, err := Bind(l, limit); err != nil {
			return nil, fmt.Errorf("limit %d: %w", i+1, err)
		}
	}
	return &BoundAll{limiter: l, limits: append([]Limit(nil), limits...)}, nil
}

// MustBindAll is BindAll for limits known to be valid, such as constants. It panics on an error.
func MustBindAll(l Limiter, limits ...Limit) *BoundAll {
	b, err := BindAll(l, limits...)
	if err != nil {
		panic(err)
	}
	return b
}

// WithPolicy returns a copy of b that uses policy p when the Limiter fails. See [Bound.WithPolicy].
func (b *BoundAll) WithPolicy(p Policy) *BoundAll {
	return &BoundAll{limiter: b.limiter, limits: b.limits, policy: p}
}

// Checks returns one check of n units for each limit, for functions that need a Check. The Owner of all these checks is
// the key, so that one server decides them in one step.
func (b *BoundAll) Checks(key string, n int64) []Check {
	checks := make([]Check, len(b.limits))
	for i, limit := range b.limits {
		checks[i] = Check{Key: key + "/" + strconv.Itoa(i+1), Limit: limit, Cost: n, Owner: key, OnFailure: b.policy}
	}
	return checks
}

// Allow takes one unit of each limit for the key, or nothing, and reports whether the request is allowed. Caller
// errors and failures are handled as in [Bound.Allow].
func (b *BoundAll) Allow(key string) bool { return b.AllowN(key, 1) }

// AllowN is like Allow for n units. It returns false for n < 1.
func (b *BoundAll) AllowN(key string, n int64) bool {
	decisions, err := b.Take(context.Background(), key, n)
	if err != nil {
		return b.policy.Allows(err)
	}
	return Allowed(decisions)
}

// Take takes n units of each limit for the key, or nothing. It returns one decision for each limit: [Allowed] reports
// whether the request is allowed, and [Tightest] returns the decision to report. To give units back, call Give of the
// Limiter for each of the Checks, with the Receipt of the corresponding decision.
func (b *BoundAll) Take(ctx context.Context, key string, n int64) ([]Decision, error) {
	if err := ValidateKey(key); err != nil {
		return nil, err // the Limiter would accept an empty key, because Checks appends "/1"
	}
	return b.limiter.TakeAll(ctx, b.Checks(key, n), make([]Decision, 0, len(b.limits)))
}

// Reset clears the consumption of the key under all limits.
func (b *BoundAll) Reset(ctx context.Context, key string) error {
	if err := ValidateKey(key); err != nil {
		return err
	}
	for _, c := range b.Checks(key, 1) {
		if err := b.limiter.Reset(ctx, c); err != nil {
			return fmt.Errorf("reset %s: %w", quote(c.Key), err)
		}
	}
	return nil
}
