package limittest

import (
	"context"

	"github.com/headgate/headgate"
)

// These functions call a limiter. They stop the test if the limiter returns an error or an impossible decision.

// take takes n units, or peeks if n is 0.
func (tr *trial) take(key string, l headgate.Limit, n int64) headgate.Decision {
	tr.Helper()
	if n == 0 {
		return tr.peek(key, l)
	}
	c := headgate.Check{Key: key, Limit: l, Cost: n}
	d, err := tr.limiter.Take(context.Background(), c)
	if err != nil {
		tr.Fatalf("take %d of %s: %v", n, l, err)
	}
	return requirePlausible(tr, c, d)
}

func (tr *trial) peek(key string, l headgate.Limit) headgate.Decision {
	tr.Helper()
	c := headgate.Check{Key: key, Limit: l}
	d, err := tr.limiter.Peek(context.Background(), c)
	if err != nil {
		tr.Fatalf("peek at %s: %v", l, err)
	}
	return requirePlausible(tr, c, d)
}

func (tr *trial) charge(l headgate.Limit, n int64) headgate.Decision {
	tr.Helper()
	d, err := tr.limiter.Charge(context.Background(), headgate.Check{Key: "alice", Limit: l, Cost: n})
	if err != nil {
		tr.Fatalf("charge %d of %s: %v", n, l, err)
	}
	if d.Allowed != (d.Remaining >= 0) {
		tr.Fatalf("charge %d of %s: got %s with %d remaining", n, l, outcome(d.Allowed), d.Remaining)
	}
	if d.Receipt.Units < 0 || d.Receipt.Units > n {
		tr.Fatalf("charge %d of %s: got receipt %+v", n, l, d.Receipt)
	}
	return d
}

func (tr *trial) give(l headgate.Limit, n int64, r headgate.Receipt) {
	tr.Helper()
	if err := tr.limiter.Give(context.Background(), headgate.Check{Key: "alice", Limit: l, Cost: n}, r); err != nil {
		tr.Fatalf("give %d of %s back: %v", n, l, err)
	}
}

func (tr *trial) reset(key string) {
	tr.Helper()
	if err := tr.limiter.Reset(context.Background(), headgate.Check{Key: key}); err != nil {
		tr.Fatalf("reset: %v", err)
	}
}

func (tr *trial) takeAll(checks []headgate.Check) []headgate.Decision {
	tr.Helper()
	ds, err := tr.limiter.TakeAll(context.Background(), checks, nil)
	if err != nil {
		tr.Fatalf("take all: %v", err)
	}
	if len(ds) != len(checks) {
		tr.Fatalf("take all: got %d decisions for %d checks", len(ds), len(checks))
	}
	all := headgate.Allowed(ds)
	for i, d := range ds {
		if err := plausible(checks[i], d, all); err != nil {
			tr.Fatalf("take all, %s, cost %d: %v", checks[i].Limit, checks[i].Cost, err)
		}
	}
	return ds
}

// sameDecision reports whether two decisions are equal except for the lease in their receipts.
func sameDecision(a, b headgate.Decision) bool {
	a.Receipt.Lease, b.Receipt.Lease = 0, 0
	return a == b
}

// requireUnused fails the test unless nothing is consumed under a key.
func (tr *trial) requireUnused(key string, l headgate.Limit, when string) {
	tr.Helper()
	if d := tr.peek(key, l); !d.Allowed || d.Remaining != l.Capacity() || d.ResetAfter != 0 {
		tr.Fatalf("%s, %s: got %+v, want as new", l, when, d)
	}
}
