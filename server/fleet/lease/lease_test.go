package lease

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/stepstore"
)

// inBubble runs a test of one node and its store in virtual time.
func inBubble(t *testing.T, o Options, run func(t *testing.T, l *Limiter, w *leaseWire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newLeaseWire(stepstore.New(time.Now))
		run(t, newTestLease(t, w, o), w)
	})
}

// warm has a key asked for so often that more than one unit is leased at a time. It returns how many units it took.
func warm(t *testing.T, l *Limiter, c headgate.Check) (taken int64) {
	t.Helper()
	c.Cost = 1
	for range 10 {
		if !mustLease(t, l, c).Allowed {
			t.Fatal("denied while it was warmed up")
		}
		taken++
	}
	return taken
}

// remaining is what the store itself has.
func remaining(t *testing.T, w *leaseWire, c headgate.Check) int64 {
	t.Helper()
	c.Cost = 0
	d, err := w.store.Peek(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

func TestOptionsOfALeaseAreChecked(t *testing.T) {
	w := newLeaseWire(stepstore.New(time.Now))
	for want, o := range map[string]Options{
		"TTL":        {TTL: 101 * time.Millisecond},
		"TTL 1":      {TTL: time.Microsecond},
		"MaxKeys":    {MaxKeys: -1},
		"MaxWaiting": {MaxWaiting: -1},
		"Timeout":    {Timeout: -1},
	} {
		if _, err := New(w, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want a complaint about %s", o, err, want)
		}
	}
	if _, err := New(nil, Options{}); err == nil {
		t.Error("no source: got no error")
	}
}

func TestAKeyThatIsAskedForOnceTakesWhatItCosts(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100), Cost: 3}
		if d := mustLease(t, l, c); !d.Allowed || d.Remaining != 97 || d.Limit != 100 || d.Receipt.Units != 3 {
			t.Errorf("got %+v, want 3 taken and 97 remaining", d)
		}
		if got := remaining(t, w, c); got != 97 {
			t.Errorf("the store has %d left, want 97: nothing is leased ahead for one request", got)
		}
	})
}

func TestManyDecisionsCostFewCalls(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerSecond(1_000_000), Cost: 1}
		for range 10_000 {
			if !mustLease(t, l, c).Allowed {
				t.Fatal("denied far below the limit")
			}
			time.Sleep(100 * time.Microsecond)
		}
		if got := w.callsMade(); got > 20 {
			t.Errorf("10000 decisions in a second made %d calls, want at most 20", got)
		}
	})
}

func TestCallersOfOneKeyShareACall(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		w.delay = roundTrip(10 * time.Millisecond)
		c := headgate.Check{Key: "a", Limit: headgate.Per(1000, time.Hour), Cost: 1}
		var group sync.WaitGroup
		var allowed atomic.Int64
		for range 1500 {
			group.Go(func() {
				d, err := l.Take(context.Background(), c)
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					allowed.Add(1)
				}
			})
		}
		group.Wait()
		if got := allowed.Load(); got > 1000 || got < 500 {
			t.Errorf("%d of 1500 allowed at once, want most of 1000 and no more", got)
		}
		if got := w.callsMade(); got > callBurst+1 {
			t.Errorf("%d calls for 1500 callers, want at most %d", got, callBurst+1)
		}
		time.Sleep(2 * time.Second) // the others can have the rest
		for range 1000 {
			if d := mustLease(t, l, c); d.Allowed {
				allowed.Add(1)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got := allowed.Load(); got < 1000 || got > 1004 {
			t.Errorf("%d allowed in all, want 1000 and what came back", got)
		}
	})
}

func TestALargeCostIsAskedForWhole(t *testing.T) {
	inBubble(t, Options{Members: fixedMembers(10)}, func(t *testing.T, l *Limiter, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100), Cost: 90}
		if d := mustLease(t, l, c); !d.Allowed {
			t.Errorf("got %+v, want 90 of 100", d)
		}
		c.Cost = 11
		if d := mustLease(t, l, c); d.Allowed || d.RetryAfter <= 0 || d.Remaining >= 11 {
			t.Errorf("got %+v, want 11 of the last 10 denied", d)
		}
		c.Cost = 10
		if d := mustLease(t, l, c); !d.Allowed {
			t.Errorf("got %+v, want the last 10: that more was denied says nothing about them", d)
		}
		c.Cost = 101
		if d := mustLease(t, l, c); d.Allowed || d.RetryAfter != headgate.Never {
			t.Errorf("got %+v, want it denied for ever", d)
		}
	})
}

func TestWhatIsHeldInSeveralGrantsIsUsedTogether(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(1000), Cost: 1}
		mustLease(t, l, c)
		h := l.table.find(l.table.hash("a"), "a", &c.Limit)
		now := l.clock.Elapsed()
		for i := range 3 {
			g := &grant{size: 5, expires: now + time.Second, renewAt: now + time.Second, lowWater: -1, at: int64(i)}
			g.left.Store(5)
			h.grants = append(h.grants, g)
		}
		before := w.callsMade()
		c.Cost = 13
		d := mustLease(t, l, c)
		if !d.Allowed || w.callsMade() != before {
			t.Fatalf("got %+v and %d calls, want 13 of 3 grants of 5 without a call", d, w.callsMade()-before)
		}
		if d.Receipt.At != 0 {
			t.Errorf("the receipt is of %d, want that of the oldest", d.Receipt.At)
		}
		if got := h.held(now); got != 2 {
			t.Errorf("%d left, want 2", got)
		}
	})
}

// Of a cost that is larger than what is held only the rest is asked for: both together may just be enough.
func TestALargeCostIsServedFromWhatIsHeldAndTheRest(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100)}
		taken := warm(t, l, c)
		h := l.table.find(l.table.hash("a"), "a", &c.Limit)
		held, left := h.held(l.clock.Elapsed()), remaining(t, w, c)
		if held == 0 {
			t.Fatal("nothing is held, and the test shows nothing")
		}
		time.Sleep(50 * time.Millisecond)
		if c.Cost = held + left; c.Cost != 100-taken {
			t.Fatalf("%d held and %d left, want %d in all", held, left, 100-taken)
		}
		if d := mustLease(t, l, c); !d.Allowed {
			t.Errorf("%d of %d held and %d left: got %+v, want it allowed", c.Cost, held, left, d)
		}
	})
}

func TestALeaseOfAWindowEndsWithTheWindow(t *testing.T) {
	for _, limit := range []string{"100/s fixed-window", "100/s sliding-window"} {
		inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
			c := headgate.Check{Key: "a", Limit: headgate.MustParseLimit(limit), Cost: 1}
			end := time.Now().Truncate(time.Second).Add(time.Second)
			time.Sleep(time.Until(end.Add(-20 * time.Millisecond)))
			warm(t, l, c)
			h := l.table.find(l.table.hash("a"), "a", &c.Limit)
			time.Sleep(time.Until(end.Add(-time.Microsecond)))
			if h.held(l.clock.Elapsed()) == 0 {
				t.Fatalf("%s: nothing is held, and the test shows nothing", limit)
			}
			time.Sleep(time.Microsecond)
			if got := h.held(l.clock.Elapsed()); got != 0 {
				t.Errorf("%s: %d units of the last window can be used in the next, want none", limit, got)
			}
		})
	}
}
