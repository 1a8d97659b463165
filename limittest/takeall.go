package limittest

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
)

// takeAllTests check that TakeAll takes all of its checks or none.
func takeAllTests() []suiteTest {
	return []suiteTest{
		{"takeall", "all or none, as if one by one", (*trial).allOrNone},
		{"takeall", "appends to dst", (*trial).appendsToDst},
		{"takeall", "of no checks", (*trial).takesNoChecks},
		{"takeall", "of MaxChecks", (*trial).takesMaxChecks},
	}
}

// allOrNone runs the same history on two limiters. One takes all checks with TakeAll. The other peeks at each
// check first, and then takes one by one if all would be admitted.
func (tr *trial) allOrNone() {
	other := tr.twin()
	var allowed, denied int
	for range tr.Steps {
		l := timedLimits[tr.rng.IntN(len(timedLimits))]
		tr.Advance(min(randomPause(tr.rng, l, tr.elapsed()), restoreTime(l)))
		checks := tr.randomChecks()
		got := tr.takeAll(checks)
		want := other.takeOneByOne(checks)
		for i := range checks {
			if !sameDecision(got[i], want[i]) {
				tr.Fatalf("check %d of %d, %s, cost %d: got %+v, want %+v",
					i+1, len(checks), checks[i].Limit, checks[i].Cost, got[i], want[i])
			}
		}
		if headgate.Allowed(got) {
			allowed++
			continue
		}
		denied++
		for i, c := range checks {
			if a, b := tr.peek(c.Key, c.Limit), other.peek(c.Key, c.Limit); a != b {
				tr.Fatalf("check %d of %d was denied and %s is %+v, want %+v", i+1, len(checks), c.Limit, a, b)
			}
		}
	}
	if tr.Steps >= 100 && (allowed == 0 || denied == 0) {
		tr.Fatalf("%d allowed, %d denied: want some of both", allowed, denied)
	}
}

// randomChecks returns checks of several limits, each under its own key.
func (tr *trial) randomChecks() []headgate.Check {
	order := tr.rng.Perm(len(allLimits))[:1+tr.rng.IntN(5)]
	checks := make([]headgate.Check, len(order))
	for i, n := range order {
		l := allLimits[n]
		checks[i] = headgate.Check{Key: fmt.Sprint("alice/", n), Limit: l, Cost: randomCost(tr.rng, l)}
		switch tr.rng.IntN(12) {
		case 1:
			checks[i].Cost = l.Capacity() + 1
		case 2, 3, 4, 5, 6, 7:
			checks[i].Cost = 1
		}
	}
	return checks
}

// takeOneByOne does the same as TakeAll, by calls of Peek and Take.
func (tr *trial) takeOneByOne(checks []headgate.Check) []headgate.Decision {
	all := true
	for _, c := range checks {
		peeked := tr.peek(c.Key, c.Limit)
		all = all && peeked.Allowed && peeked.Remaining >= c.Cost
	}
	ds := make([]headgate.Decision, len(checks))
	for i, c := range checks {
		peeked := tr.peek(c.Key, c.Limit)
		if passes := peeked.Allowed && peeked.Remaining >= c.Cost; !all && passes {
			ds[i] = peeked
			continue
		}
		ds[i] = tr.take(c.Key, c.Limit, c.Cost)
	}
	return ds
}

func (tr *trial) appendsToDst() {
	l := headgate.PerSecond(10)
	before := headgate.Decision{Limit: 42}
	checks := []headgate.Check{{Key: "a", Limit: l, Cost: 1}, {Key: "b", Limit: l, Cost: 2}}
	for _, checks := range [][]headgate.Check{checks, checks[:1]} {
		ds, err := tr.limiter.TakeAll(context.Background(), checks, []headgate.Decision{before})
		if err != nil || len(ds) != 1+len(checks) || ds[0] != before || !ds[1].Allowed {
			tr.Errorf("%d checks: got %+v, %v", len(checks), ds, err)
		}
	}
	if a, b := tr.peek("a", l).Remaining, tr.peek("b", l).Remaining; a != 8 || b != 8 {
		tr.Errorf("got %d and %d remaining, want 8 and 8", a, b)
	}
}

func (tr *trial) takesNoChecks() {
	dst := []headgate.Decision{{Limit: 42}}
	ds, err := tr.limiter.TakeAll(context.Background(), nil, dst)
	if err != nil || len(ds) != 1 || ds[0] != dst[0] {
		tr.Errorf("got %+v, %v, want what was given", ds, err)
	}
}

func (tr *trial) takesMaxChecks() {
	checks := make([]headgate.Check, headgate.MaxChecks)
	for i := range checks {
		checks[i] = headgate.Check{Key: fmt.Sprint("key", i), Limit: allLimits[i%len(allLimits)], Cost: 1}
	}
	if !headgate.Allowed(tr.takeAll(checks)) {
		tr.Fatal("new keys were denied")
	}
	last := &checks[len(checks)-1]
	last.Cost = last.Limit.Capacity() + 1
	if headgate.Allowed(tr.takeAll(checks)) {
		tr.Fatal("a cost above its capacity was allowed")
	}
	for _, c := range checks {
		if got, want := tr.peek(c.Key, c.Limit).Remaining, c.Limit.Capacity()-1; got != want {
			tr.Errorf("%s: %d remaining after one was taken and one denied, want %d", c.Limit, got, want)
		}
	}
}
