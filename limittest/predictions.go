package limittest

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// predictionTests check that the fields of a decision predict later decisions.
func predictionTests() []suiteTest {
	return slices.Concat(
		forEach("predictions", "peek is what take decides", allLimits, (*trial).peekPredictsTake),
		forEach("predictions", "retry is exact", timedLimits, (*trial).retryIsExact),
		forEach("predictions", "remaining can be taken", allLimits, (*trial).remainingCanBeTaken),
		forEach("predictions", "reset is exact", allLimits, (*trial).resetIsExact))
}

// randomStep takes or charges a random cost after a random pause, and may refund a part of it. A history that gets too
// long for a Duration starts again with a new limiter.
func (tr *trial) randomStep(l headgate.Limit) {
	tr.Helper()
	if tr.elapsed() > maxHistory {
		tr.setElapsed(0)
		tr.limiter = tr.maker(tr.TB, tr.Now)
	}
	tr.Advance(randomPause(tr.rng, l, tr.elapsed()))
	n := randomCost(tr.rng, l)
	if l.Algorithm != headgate.Concurrency && tr.rng.IntN(10) == 0 {
		tr.charge(l, n)
		return
	}
	if d := tr.take("alice", l, n); d.Allowed && tr.rng.IntN(10) == 0 {
		tr.give(l, 1+tr.rng.Int64N(n), d.Receipt)
	}
}

// peekPredictsTake checks that a peek at a cost predicts the take of that cost.
func (tr *trial) peekPredictsTake(l headgate.Limit) {
	for range tr.Steps {
		tr.randomStep(l)
		c := headgate.Check{Key: "alice", Limit: l, Cost: randomCost(tr.rng, l)}
		if tr.rng.IntN(10) == 0 {
			c.Cost = l.Capacity() + 1
		}
		got, err := tr.limiter.Peek(context.Background(), c)
		if err != nil {
			tr.Fatalf("%s: peek at a cost of %d: %v", l, c.Cost, err)
		}
		want := tr.peek(c.Key, l)
		d := tr.take(c.Key, l, c.Cost)
		want.Allowed, want.RetryAfter, want.Delay = d.Allowed, d.RetryAfter, d.Delay
		if got != want {
			tr.Fatalf("%s: peek at a cost of %d: got %+v, want %+v", l, c.Cost, got, want)
		}
	}
}

// retryIsExact checks that a denied cost is allowed after RetryAfter, and not a microsecond earlier.
func (tr *trial) retryIsExact(l headgate.Limit) {
	denied := 0
	for range tr.Steps {
		tr.randomStep(l)
		n := randomCost(tr.rng, l)
		if tr.rng.IntN(10) == 0 {
			n = 0 // denied while in debt
		}
		first := tr.take("alice", l, n)
		if first.Allowed {
			continue
		}
		denied++
		tr.Advance(first.RetryAfter - time.Microsecond)
		if d := tr.take("alice", l, n); d.Allowed {
			tr.Fatalf("%s: cost %d, told to retry after %v, was allowed 1µs before", l, n, first.RetryAfter)
		} else if d.RetryAfter != time.Microsecond {
			tr.Fatalf("%s: cost %d, 1µs before RetryAfter: got another %v", l, n, d.RetryAfter)
		}
		tr.Advance(time.Microsecond)
		if d := tr.take("alice", l, n); !d.Allowed {
			tr.Fatalf("%s: cost %d, told to retry after %v, was denied then: %+v", l, n, first.RetryAfter, d)
		}
	}
	if denied == 0 {
		tr.Fatalf("%s: nothing was denied", l)
	}
}

// remainingCanBeTaken checks that the remaining units can be taken, and not one unit more.
func (tr *trial) remainingCanBeTaken(l headgate.Limit) {
	for range tr.Steps {
		tr.randomStep(l)
		d := tr.peek("alice", l)
		if more := max(d.Remaining, 0) + 1; more <= d.Limit {
			over := tr.take("alice", l, more)
			if over.Allowed {
				tr.Fatalf("%s: %d units were allowed with %d remaining", l, more, d.Remaining)
			}
			if over.Remaining != d.Remaining {
				tr.Fatalf("%s: %d remaining after a denial, %d before", l, over.Remaining, d.Remaining)
			}
		}
		if d.Remaining <= 0 || tr.rng.IntN(4) > 0 {
			continue
		}
		if all := tr.take("alice", l, d.Remaining); !all.Allowed || all.Remaining != 0 {
			tr.Fatalf("%s: took the %d that remained: got %s with %d remaining", l, d.Remaining, outcome(all.Allowed),
				all.Remaining)
		}
	}
}

// resetIsExact checks that a key is fully restored after ResetAfter, and not a microsecond earlier.
func (tr *trial) resetIsExact(l headgate.Limit) {
	for range max(1, tr.Steps/10) {
		for range 1 + tr.rng.IntN(20) {
			tr.randomStep(l)
		}
		d := tr.peek("alice", l)
		if d.ResetAfter > 0 {
			tr.Advance(d.ResetAfter - time.Microsecond)
			if before := tr.peek("alice", l); before.ResetAfter != time.Microsecond {
				tr.Fatalf("%s: reset was predicted after %v, and 1µs before that after another %v", l, d.ResetAfter,
					before.ResetAfter)
			}
			tr.Advance(time.Microsecond)
		}
		tr.requireUnused("alice", l, "after ResetAfter")
		if d := tr.take("alice", l, l.Capacity()); !d.Allowed || d.Remaining != 0 {
			tr.Fatalf("%s: taking its capacity after ResetAfter: got %+v", l, d)
		}
	}
}
