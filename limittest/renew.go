package limittest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// renewTests check that a slot renewed in time does not expire, and that renewing never exceeds the limit.
func renewTests() []suiteTest {
	return []suiteTest{
		{"renew", "keeps held slots", func(tr *trial) {
			tr.renewedSlotsAreHeld(headgate.MustParseLimit("7 concurrent ttl 10s"))
		}},
		{"renew", "of other algorithms", (*trial).testRenewOfOtherAlgorithms},
	}
}

// A slot is a slot of a concurrency limit that is or was held.
type slot struct {
	headgate.Receipt
	until time.Duration
}

// heldUnits returns the units of the slots that have not expired.
func heldUnits(slots []slot, now time.Duration) (units int64) {
	for _, s := range slots {
		if s.until > now {
			units += s.Units
		}
	}
	return units
}

// renewedSlotsAreHeld takes, renews and releases slots at random times, and checks which of them are held.
func (tr *trial) renewedSlotsAreHeld(l headgate.Limit) {
	ctx := context.Background()
	var slots []slot
	used := func() int64 { return heldUnits(slots, tr.elapsed()) }
	for range tr.Steps {
		tr.Advance(randomDuration(tr.rng, l.TTL/2))
		switch n := randomCost(tr.rng, l); {
		case len(slots) > 0 && tr.rng.IntN(3) > 0:
			i := tr.rng.IntN(len(slots))
			s := &slots[i]
			c := headgate.Check{Key: "alice", Limit: l, Cost: s.Units}
			want := s.until > tr.elapsed() || used()+s.Units <= l.Capacity()
			held, err := tr.limiter.Renew(ctx, c, s.Receipt)
			if err != nil || held != want {
				tr.Fatalf("renew %d units, %d of %d are held by others and itself: got %v, %v, want %v",
					s.Units, used(), l.Capacity(), held, err, want)
			}
			if held {
				s.until = tr.elapsed() + l.TTL
			}
		case len(slots) > 0 && tr.rng.IntN(4) == 0:
			i := tr.rng.IntN(len(slots))
			tr.give(l, slots[i].Units, slots[i].Receipt)
			slots = slices.Delete(slots, i, i+1)
		default:
			want := used()+n <= l.Capacity()
			d := tr.take("alice", l, n)
			if d.Allowed != want {
				tr.Fatalf("take %d, %d of %d are held: got %s", n, used(), l.Capacity(), outcome(d.Allowed))
			}
			if d.Allowed {
				slots = append(slots, slot{d.Receipt, tr.elapsed() + l.TTL})
			}
		}
		if got, want := tr.peek("alice", l).Remaining, l.Capacity()-used(); got != want {
			tr.Fatalf("%d remaining, want %d", got, want)
		}
	}
}

// testRenewOfOtherAlgorithms checks that receipts of other algorithms, which are not slots, cannot be renewed.
func (tr *trial) testRenewOfOtherAlgorithms() {
	for _, l := range timedLimits {
		d := tr.take("alice", l, 1)
		held, err := tr.limiter.Renew(context.Background(), headgate.Check{Key: "alice", Limit: l, Cost: 1}, d.Receipt)
		if held || !errors.Is(err, headgate.ErrUnsupported) {
			tr.Errorf("renew 1 of %s: got %v, %v, want %v", l, held, err, headgate.ErrUnsupported)
		}
		tr.reset("alice")
	}
}
