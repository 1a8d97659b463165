package limittest

import (
	"slices"

	"github.com/headgate/headgate"
)

// changeTests check the effect of changing a key's limit, of charging it, and of resetting it.
func changeTests() []suiteTest {
	return slices.Concat(
		forEach("change", "raised", allLimits, (*trial).limitRaised),
		forEach("change", "any time", allLimits, (*trial).limitChanged),
		forEach("change", "charged", timedLimits, (*trial).chargedIntoDebt),
		forEach("change", "reset", allLimits, (*trial).resetAllAlgorithms))
}

// larger returns a limit with twice the count and burst, up to the maximum count.
func larger(l headgate.Limit) headgate.Limit {
	l.Count = min(2*l.Count, headgate.MaxCount)
	if l.Burst != 0 {
		l.Burst *= 2
	}
	return l
}

// limitRaised exhausts a key, raises its limit, exhausts it again and restores the limit.
func (tr *trial) limitRaised(l headgate.Limit) {
	high := larger(l)
	added := high.Capacity() - l.Capacity()
	if d := tr.take("alice", l, l.Capacity()); !d.Allowed {
		tr.Fatalf("%s: a new key was denied: %+v", l, d)
	}
	if d := tr.peek("alice", high); d.Remaining != added {
		tr.Fatalf("%s raised to %s: got %d remaining, want the %d that were added", l, high, d.Remaining, added)
	}
	if added > 0 {
		if d := tr.take("alice", high, added); !d.Allowed {
			tr.Fatalf("%s raised to %s: cost %d: got %+v", l, high, added, d)
		}
	}
	if d := tr.take("alice", l, 1); d.Allowed || d.Remaining != -added {
		tr.Fatalf("%s lowered to %s: got %+v, want denied with %d remaining", high, l, d, -added)
	}
	if d := tr.peek("alice", high); d.Remaining != 0 {
		tr.Fatalf("%s raised again to %s: got %d remaining, want 0", l, high, d.Remaining)
	}
}

// limitChanged changes a limit during a history, but not the rate at which a bucket drains. The remaining units must
// change by the difference of the capacities.
func (tr *trial) limitChanged(l headgate.Limit) {
	high := larger(l)
	if isBucket(l) {
		high.Count = l.Count
		high.Burst = min(2*l.Capacity(), headgate.MaxCount)
	}
	current, other := l, high
	for range tr.Steps {
		tr.randomStep(current)
		if tr.rng.IntN(4) > 0 {
			continue
		}
		before, after := tr.peek("alice", current), tr.peek("alice", other)
		if got, want := after.Remaining-before.Remaining, other.Capacity()-current.Capacity(); got != want {
			tr.Fatalf("%s became %s: %d remaining became %d, want a difference of %d",
				current, other, before.Remaining, after.Remaining, want)
		}
		if before.ResetAfter != after.ResetAfter {
			tr.Fatalf("%s became %s: reset after %v became %v", current, other, before.ResetAfter, after.ResetAfter)
		}
		current, other = other, current
	}
}

// chargedIntoDebt charges beyond the limit, up to the largest debt, and then tries to charge more.
func (tr *trial) chargedIntoDebt(l headgate.Limit) {
	capacity := l.Capacity()
	if d := tr.charge(l, capacity); !d.Allowed || d.Remaining != 0 || d.Receipt.Units != capacity {
		tr.Fatalf("%s: charged its capacity: got %+v", l, d)
	}
	if d := tr.charge(l, 1); d.Allowed || d.Remaining != -1 || d.Receipt.Units != 1 {
		tr.Fatalf("%s: charged 1 beyond: got %+v", l, d)
	}
	largestDebt := -headgate.MaxDebt * capacity
	for range headgate.MaxDebt + 2 {
		tr.charge(l, min(3*capacity, headgate.MaxCount))
	}
	d := tr.charge(l, headgate.MaxCount)
	if d.Remaining != largestDebt || d.Receipt.Units != 0 {
		tr.Fatalf("%s: charged without end: got %+v, want %d remaining and nothing charged", l, d, largestDebt)
	}
	inDebt := tr.peek("alice", l)
	if inDebt.Allowed || inDebt.Remaining != largestDebt {
		tr.Fatalf("%s: in the largest debt: got %+v", l, inDebt)
	}
	tr.Advance(inDebt.RetryAfter)
	if d := tr.peek("alice", l); !d.Allowed || d.Remaining < 0 {
		tr.Fatalf("%s: after %v the debt is repaid, got %+v", l, inDebt.RetryAfter, d)
	}
}

// resetAllAlgorithms resets keys of every algorithm.
func (tr *trial) resetAllAlgorithms(l headgate.Limit) {
	tr.take("alice", l, l.Capacity())
	for _, other := range allLimits {
		if other.Algorithm != l.Algorithm {
			tr.take("alice", other, 1)
		}
	}
	tr.reset("alice")
	tr.requireUnused("alice", l, "after a reset")
	for _, other := range allLimits {
		tr.requireUnused("alice", other, "after a reset")
	}
	if d := tr.take("alice", l, l.Capacity()); !d.Allowed {
		tr.Errorf("%s: denied its capacity after a reset: %+v", l, d)
	}
	tr.reset("nobody")
}
