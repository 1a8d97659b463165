package fleet

import (
	"context"
	"errors"
	"fmt"
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
func inBubble(t *testing.T, o LeaseOptions, run func(t *testing.T, l *Lease, w *leaseWire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newLeaseWire(stepstore.New(time.Now))
		run(t, newTestLease(t, w, o), w)
	})
}

// warm has a key asked for so often that more than one unit is leased at a time. It returns how many units it took.
func warm(t *testing.T, l *Lease, c headgate.Check) (taken int64) {
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
	d, err := w.store.Take(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

func TestOptionsOfALeaseAreChecked(t *testing.T) {
	w := newLeaseWire(stepstore.New(time.Now))
	for want, o := range map[string]LeaseOptions{
		"TTL":        {TTL: 101 * time.Millisecond},
		"TTL 1":      {TTL: time.Microsecond},
		"MaxKeys":    {MaxKeys: -1},
		"MaxWaiting": {MaxWaiting: -1},
		"Timeout":    {Timeout: -1},
	} {
		if _, err := NewLease(w, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want a complaint about %s", o, err, want)
		}
	}
	if _, err := NewLease(nil, LeaseOptions{}); err == nil {
		t.Error("no source: got no error")
	}
}

func TestAKeyThatIsAskedForOnceTakesWhatItCosts(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
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
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
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
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
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
		if got := w.callsMade(); got > callsAtOnce+1 {
			t.Errorf("%d calls for 1500 callers, want at most %d", got, callsAtOnce+1)
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
	inBubble(t, LeaseOptions{Members: fixedMembers(10)}, func(t *testing.T, l *Lease, w *leaseWire) {
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
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(1000), Cost: 1}
		mustLease(t, l, c)
		h := l.table.find(l.table.hash("a"), "a", &c.Limit)
		now := l.clock.Now()
		for i := range 3 {
			g := &grant{size: 5, expires: now + time.Second, renewAt: now + time.Second, low: -1, at: int64(i)}
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
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100)}
		taken := warm(t, l, c)
		h := l.table.find(l.table.hash("a"), "a", &c.Limit)
		held, left := h.held(l.clock.Now()), remaining(t, w, c)
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

func TestAHolderThatWasStoppedUsesNothingThatIsStale(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerSecond(100), Cost: 1}
		warm(t, l, c)
		if l.table.find(l.table.hash("a"), "a", &c.Limit).held(l.clock.Now()) == 0 {
			t.Fatal("nothing is held, and the test shows nothing")
		}
		w.sever(true)
		time.Sleep(DefaultLeaseTTL - time.Microsecond)
		if d := mustLease(t, l, c); !d.Allowed {
			t.Errorf("a moment before it expires: got %+v, want it allowed", d)
		}
		time.Sleep(time.Microsecond)
		if d, err := l.Take(t.Context(), c); !errors.Is(err, errCut) {
			t.Errorf("when it has expired: got %+v, %v, want the store asked in vain", d, err)
		}
	})
}

func TestAnAnswerThatComesTooLateIsNotUsed(t *testing.T) {
	inBubble(t, LeaseOptions{TTL: 20 * time.Millisecond}, func(t *testing.T, l *Lease, w *leaseWire) {
		w.delay = roundTrip(30 * time.Millisecond)
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100), Cost: 1}
		for range 20 {
			if d := mustLease(t, l, c); !d.Allowed {
				t.Fatalf("got %+v, want it allowed: the store has enough", d)
			}
		}
		s := l.Stats()
		if s.Exact < 19 {
			t.Errorf("%d checks asked for one by one, want nearly all of 20: leases are over when they arrive", s.Exact)
		}
		time.Sleep(time.Second)
		if got := remaining(t, w, c); got != 80 && got != 79 { // a moment of a unit has drained from what was handed back
			t.Errorf("the store has %d left, want 80: what came too late was handed back", got)
		}
	})
}

func TestALeaseOfAWindowEndsWithTheWindow(t *testing.T) {
	for _, limit := range []string{"100/s fixed-window", "100/s sliding-window"} {
		inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
			c := headgate.Check{Key: "a", Limit: headgate.MustParseLimit(limit), Cost: 1}
			end := time.Now().Truncate(time.Second).Add(time.Second)
			time.Sleep(time.Until(end.Add(-20 * time.Millisecond)))
			warm(t, l, c)
			h := l.table.find(l.table.hash("a"), "a", &c.Limit)
			time.Sleep(time.Until(end.Add(-time.Microsecond)))
			if h.held(l.clock.Now()) == 0 {
				t.Fatalf("%s: nothing is held, and the test shows nothing", limit)
			}
			time.Sleep(time.Microsecond)
			if got := h.held(l.clock.Now()); got != 0 {
				t.Errorf("%s: %d units of the last window can be used in the next, want none", limit, got)
			}
		})
	}
}

func TestCloseHandsBackWhatIsHeld(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		var taken int64
		c := headgate.Check{Limit: headgate.PerHour(10_000)}
		for i := range 100 {
			c.Key = fmt.Sprint("key", i)
			taken += warm(t, l, c)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got int64
		for i := range 100 {
			c.Key = fmt.Sprint("key", i)
			got += 10_000 - remaining(t, w, c)
		}
		if got != taken {
			t.Errorf("%d units are missing in the store, want the %d that were used", got, taken)
		}
		if _, err := l.Take(t.Context(), c); !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("take after close: got %v, want %v", err, headgate.ErrClosed)
		}
		if err := l.Close(t.Context()); !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("close after close: got %v, want %v", err, headgate.ErrClosed)
		}
	})
}

func TestCloseSendsThoseAwayWhoWaitAndHandsBackWhatIsOnItsWay(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		w.delay = roundTrip(40 * time.Millisecond)
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100), Cost: 5}
		told := make(chan error)
		go func() {
			_, err := l.Take(context.Background(), c)
			told <- err
		}()
		time.Sleep(10 * time.Millisecond)
		closed := make(chan error)
		go func() { closed <- l.Close(context.Background()) }()
		if err := <-told; !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("the one who waited got %v, want %v", err, headgate.ErrClosed)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if got := remaining(t, w, c); got != 100 {
			t.Errorf("the store has %d left, want 100", got)
		}
	})
}

func TestCloseGivesUpWhenItsTimeIsOver(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		warm(t, l, headgate.Check{Key: "a", Limit: headgate.PerHour(10_000)})
		w.delay = func() time.Duration { return time.Hour }
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if took := time.Since(began); took != 50*time.Millisecond {
			t.Errorf("it took %v, want 50ms", took)
		}
	})
}

func TestWhatIsNotUsedGoesBackAndIdleKeysAreForgotten(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(10_000)}
		taken := warm(t, l, c)
		if got := 10_000 - remaining(t, w, c); got <= taken {
			t.Fatalf("%d units debited for %d that were used, and the test shows nothing", got, taken)
		}
		time.Sleep(2 * time.Second)
		if got := 10_000 - remaining(t, w, c); got > taken {
			t.Errorf("%d units are missing in the store, want at most the %d that were used", got, taken)
		}
		if got := l.Stats(); got.Keys != 0 || got.Returned == 0 {
			t.Errorf("got %+v, want units returned and no key", got)
		}
		l.wheel.mu.Lock()
		defer l.wheel.mu.Unlock()
		if l.wheel.turning {
			t.Error("the wheel turns, and there is nothing in it")
		}
	})
}

// What time has given back already is not credited once more: not by the store, and no call is made for it.
func TestNothingIsHandedBackThatTimeHasGivenBack(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerSecond(10_000)}
		warm(t, l, c)
		time.Sleep(2 * time.Second)
		if got := w.given(); got != 0 {
			t.Errorf("%d units handed back to a bucket that was full by then, want none", got)
		}
		if got := l.Stats(); got.Expired == 0 {
			t.Errorf("got %+v, want expired units", got)
		}
	})
}

func TestGiveGoesToTheLeaseThatLivesElseToTheStore(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(1000)}
		warm(t, l, c)
		h := l.table.find(l.table.hash("a"), "a", &c.Limit)
		c.Cost = 4
		d := mustLease(t, l, c)
		held, calls := h.held(l.clock.Now()), w.callsMade()
		if err := l.Give(t.Context(), c, d.Receipt); err != nil {
			t.Fatal(err)
		}
		if got := h.held(l.clock.Now()); got != held+4 || w.callsMade() != calls {
			t.Errorf("%d held and %d calls after 4 were given to %d, want them here without a call", got, w.callsMade()-calls, held)
		}
		if err := l.Give(t.Context(), c, d.Receipt); err != nil {
			t.Fatal(err)
		}
		if got := h.held(l.clock.Now()); got > h.grants[len(h.grants)-1].size {
			t.Errorf("%d held after they were given twice, want no more than there were", got)
		}
		d = mustLease(t, l, c)
		time.Sleep(time.Second)
		before := remaining(t, w, c)
		if err := l.Give(t.Context(), c, d.Receipt); err != nil {
			t.Fatal(err)
		}
		if got := remaining(t, w, c); got != before+4 && got != before+3 { // less what has drained of them
			t.Errorf("the store has %d after 4 were given when the lease was over, want %d", got, before+4)
		}
		if err := l.Give(t.Context(), headgate.Check{Key: "a", Limit: c.Limit, Cost: 5}, d.Receipt); !errors.Is(err, headgate.ErrInvalidCheck) {
			t.Errorf("more than was taken: got %v, want %v", err, headgate.ErrInvalidCheck)
		}
	})
}

func TestOfSeveralChecksAllOrNoneAreTaken(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		checks := []headgate.Check{
			{Key: "wide", Limit: headgate.PerHour(100), Cost: 5},
			{Key: "narrow", Limit: headgate.PerHour(10), Cost: 6},
			{Key: "last", Limit: headgate.PerHour(10), Cost: 1},
		}
		ds, err := l.TakeAll(t.Context(), checks, nil)
		if err != nil || !headgate.Allowed(ds) || len(ds) != 3 {
			t.Fatalf("got %+v, %v, want all allowed", ds, err)
		}
		ds, err = l.TakeAll(t.Context(), checks, ds[:0])
		if err != nil || headgate.Allowed(ds) || len(ds) != 3 || ds[1].Allowed {
			t.Fatalf("got %+v, %v, want the second denied", ds, err)
		}
		if ds[0].Receipt.Units != 0 || ds[0].Remaining != 95 || !ds[2].Allowed || ds[2].Limit != 0 {
			t.Errorf("got %+v, want the first untouched with 95 remaining, and the third not asked", ds)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, want := range []int64{95, 4, 9} {
			if got := remaining(t, w, checks[i]); got != want {
				t.Errorf("%s: the store has %d left, want %d", checks[i].Key, got, want)
			}
		}
	})
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, _ *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100), Cost: 1}
		if _, err := l.TakeAll(t.Context(), []headgate.Check{c, c}, nil); !errors.Is(err, headgate.ErrInvalidCheck) {
			t.Errorf("a key twice: got %v, want %v", err, headgate.ErrInvalidCheck)
		}
		bad := headgate.Check{Key: "b", Limit: headgate.MustParseLimit("10/s sliding-log"), Cost: 1}
		if _, err := l.TakeAll(t.Context(), []headgate.Check{c, bad}, nil); !errors.Is(err, headgate.ErrUnsupported) {
			t.Errorf("a sliding-log: got %v, want %v", err, headgate.ErrUnsupported)
		}
		if _, err := l.Take(t.Context(), bad); !errors.Is(err, headgate.ErrUnsupported) {
			t.Errorf("a sliding-log alone: got %v, want %v", err, headgate.ErrUnsupported)
		}
		if got := l.Stats(); got.Calls != 0 {
			t.Errorf("got %+v, want no call for what is refused", got)
		}
	})
}

func TestAChangedLimitIsInForceAtOnce(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100), Cost: 100}
		if !mustLease(t, l, c).Allowed {
			t.Fatal("denied the first time")
		}
		c.Cost = 1
		if d := mustLease(t, l, c); d.Allowed {
			t.Fatalf("got %+v, want it denied", d)
		}
		c.Limit = headgate.PerHour(150)
		if d := mustLease(t, l, c); !d.Allowed {
			t.Errorf("raised to 150: got %+v, want it allowed", d)
		}
		more := 1
		for range 300 {
			if mustLease(t, l, c).Allowed {
				more++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if more != 50 {
			t.Errorf("raised from 100 to 150: %d more passed, want 50", more)
		}
		b := headgate.Check{Key: "b", Limit: headgate.PerHour(1000), Cost: 1}
		taken := warm(t, l, b)
		b.Limit = headgate.PerHour(10)
		for range 20 {
			if d := mustLease(t, l, b); d.Allowed {
				t.Fatalf("lowered to 10 when %d were used: got %+v, want it denied", taken, d)
			}
		}
		time.Sleep(2 * time.Second)
		if got := 10 - remaining(t, w, b); got != taken {
			t.Errorf("%d are consumed, want %d: the lease of the old limit was handed back", got, taken)
		}
	})
}

func TestResetForgetsWhatIsHeld(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100), Cost: 100}
		mustLease(t, l, c)
		c.Cost = 1
		if d := mustLease(t, l, c); d.Allowed {
			t.Fatalf("got %+v, want it denied", d)
		}
		if err := l.Reset(t.Context(), headgate.Check{Key: "a"}); err != nil {
			t.Fatal(err)
		}
		if d := mustLease(t, l, c); !d.Allowed {
			t.Errorf("after a reset: got %+v, want it allowed", d)
		}
		warm(t, l, c)
		if err := l.Reset(t.Context(), headgate.Check{Key: "a"}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := remaining(t, w, c); got != 100 {
			t.Errorf("the store has %d left, want 100: nothing from before is handed back", got)
		}
	})
}

// What is granted while a reset is under way may be from before it. It is not used, and who waits is served by another call.
func TestAGrantThatAResetOvertakesIsNotUsed(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		w.delay = roundTrip(20 * time.Millisecond)
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100), Cost: 60}
		got := make(chan headgate.Decision)
		go func() { got <- mustLease(t, l, c) }()
		time.Sleep(15 * time.Millisecond) // it is debited, and on its way
		if err := l.Reset(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if d := <-got; !d.Allowed {
			t.Errorf("got %+v, want it allowed", d)
		}
		if n := remaining(t, w, c); n != 40 {
			t.Errorf("the store has %d left, want 40: what it has allowed was debited after the reset", n)
		}
	})
}

func TestChargeGoesToTheStore(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100), Cost: 150}
		d, err := l.Charge(t.Context(), c)
		if err != nil || d.Remaining != -50 {
			t.Fatalf("got %+v, %v, want a debt of 50", d, err)
		}
		c.Cost = 1
		if d := mustLease(t, l, c); d.Allowed {
			t.Errorf("got %+v, want it denied", d)
		}
	})
}

func TestALookAddsWhatIsHeldHere(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(10_000)}
		taken := warm(t, l, c)
		c.Cost = 0
		if d := mustLease(t, l, c); d.Remaining != 10_000-taken {
			t.Errorf("got %+v, want %d remaining, of which the store has %d", d, 10_000-taken, remaining(t, w, c))
		}
	})
}

func TestOneWhoStopsWaitingTakesNothing(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		w.delay = roundTrip(20 * time.Millisecond)
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100), Cost: 5}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if d, err := l.Take(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %+v, %v, want %v", d, err, context.DeadlineExceeded)
		}
		time.Sleep(2 * time.Second)
		if got := remaining(t, w, c); got != 100 {
			t.Errorf("the store has %d left, want 100", got)
		}
	})
}

func TestOnlySoManyWait(t *testing.T) {
	inBubble(t, LeaseOptions{MaxWaiting: 10}, func(t *testing.T, l *Lease, w *leaseWire) {
		w.delay = roundTrip(20 * time.Millisecond)
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100), Cost: 1}
		var group sync.WaitGroup
		var allowed, denied atomic.Int64
		for range 50 {
			group.Go(func() {
				d, err := l.Take(context.Background(), c)
				switch {
				case err != nil:
					t.Error(err)
				case d.Allowed:
					allowed.Add(1)
				case d.RetryAfter <= 0:
					t.Errorf("denied with %+v, want a RetryAfter", d)
				default:
					denied.Add(1)
				}
			})
		}
		group.Wait()
		if allowed.Load() != 10 || denied.Load() != 40 || l.Stats().Crowded != 40 {
			t.Errorf("%d allowed, %d denied, %+v; want 10 and 40, all counted", allowed.Load(), denied.Load(), l.Stats())
		}
	})
}

func TestASourceThatFailsIsNotAskedForEveryCheck(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		w.sever(true)
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100), Cost: 1}
		for range 1000 {
			if d, err := l.Take(t.Context(), c); !errors.Is(err, errCut) {
				t.Fatalf("got %+v, %v, want %v", d, err, errCut)
			}
			time.Sleep(time.Millisecond)
		}
		if got := w.callsMade(); got > 20 {
			t.Errorf("%d calls in a second, want at most 20", got)
		}
		w.sever(false)
		time.Sleep(2 * callsEvery)
		if d := mustLease(t, l, c); !d.Allowed {
			t.Errorf("when it is back: got %+v, want it allowed", d)
		}
	})
}

func TestALeaseOfAFullTableAsksForEveryCheck(t *testing.T) {
	inBubble(t, LeaseOptions{MaxKeys: 4}, func(t *testing.T, l *Lease, w *leaseWire) {
		c := headgate.Check{Limit: headgate.PerHour(1000)}
		for i := range 4 {
			c.Key = fmt.Sprint("held", i)
			warm(t, l, c)
		}
		c.Key, c.Cost = "new", 1
		for i := range 3 {
			if d := mustLease(t, l, c); !d.Allowed {
				t.Fatalf("got %+v, want it allowed", d)
			}
			if got := l.Stats(); got.Exact != int64(i+1) || got.Keys != 4 {
				t.Errorf("got %+v, want %d checks asked for and 4 keys", got, i+1)
			}
		}
		if got := remaining(t, w, c); got != 997 {
			t.Errorf("the store has %d left, want 997", got)
		}
		time.Sleep(time.Second) // what is held goes back, and makes room
		exact := l.Stats().Exact
		for i := range 100 {
			c.Key = fmt.Sprint("other", i)
			if d := mustLease(t, l, c); !d.Allowed {
				t.Fatalf("got %+v, want it allowed", d)
			}
		}
		if got := l.Stats(); got.Exact > exact+4 || got.Keys > 4 {
			t.Errorf("got %+v, want keys that hold nothing to make room", got)
		}
	})
}

// If the store loses everything, no more than one burst passes that should not have.
func TestAStoreThatLosesItsDataCostsOneBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes, lasting = 4, 5 * time.Second
		f := newVirtualFleet(t, nodes, roundTrip(time.Millisecond), LeaseOptions{})
		limit := headgate.MustParseLimit("200/s burst 300")
		c := headgate.Check{Key: "hot", Limit: limit, Cost: 1}
		time.AfterFunc(2*time.Second, func() {
			if err := f.store.Reset(context.Background(), c); err != nil {
				t.Error(err)
			}
		})
		passed, _ := f.offer(c, 500, lasting)
		got, most := passed.total(), int64(mostOf(limit, lasting))+limit.Capacity()
		if got > most || got < most*95/100 {
			t.Errorf("%d units passed, want nearly %d and no more: the limit and one burst", got, most)
		}
	})
}

// A node on which the rules are newer does not let more pass than the higher of both limits.
func TestNodesWithDifferentLimitsShareOneCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newVirtualFleet(t, 2, roundTrip(time.Millisecond), LeaseOptions{})
		low, high := headgate.PerHour(100), headgate.PerHour(150)
		var passed int64
		for range 300 {
			for i, limit := range []headgate.Limit{low, high} {
				if mustLease(t, f.nodes[i], headgate.Check{Key: "a", Limit: limit, Cost: 1}).Allowed {
					passed++
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		if passed < 148 || passed > 152 { // parts of units that drain meanwhile
			t.Errorf("%d passed, want 150", passed)
		}
	})
}

// A store whose clock jumps ahead refills its buckets, as it would for exact checks; one that jumps back lets no time pass.
// Leases go by the node's clock, and add nothing to that.
func TestTheStoresClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{-time.Hour, -time.Second, time.Second, time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const lasting = 5 * time.Second
				var offset atomic.Int64
				store := stepstore.New(func() time.Time { return time.Now().Add(time.Duration(offset.Load())) })
				f := &virtualFleet{t: t, store: store, began: time.Now()}
				for range 3 {
					f.add(roundTrip(time.Millisecond), LeaseOptions{Members: fixedMembers(3)})
				}
				limit := headgate.MustParseLimit("200/s burst 300")
				time.AfterFunc(2*time.Second, func() { offset.Store(int64(jump)) })
				passed, _ := f.offer(headgate.Check{Key: "hot", Limit: limit, Cost: 1}, 500, lasting)
				most := mostOf(limit, lasting)
				least := 0.95 * most
				if jump > 0 {
					most += min(float64(limit.Capacity()), 200*jump.Seconds())
				} else {
					least = 0.95 * mostOf(limit, 2*time.Second)
				}
				if got := float64(passed.total()); got > most || got < least {
					t.Errorf("%.0f units passed, want %.0f to %.0f", got, least, most)
				}
			})
		})
	}
}

func TestWhatIsWrongIsSaidBeforeAnybodyIsAsked(t *testing.T) {
	inBubble(t, LeaseOptions{}, func(t *testing.T, l *Lease, w *leaseWire) {
		good := headgate.Check{Key: "a", Limit: headgate.PerSecond(1000), Cost: 1}
		warm(t, l, good) // so that it would be a hit
		calls := w.callsMade()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		var none context.Context
		for _, tt := range []struct {
			name   string
			ctx    context.Context
			change func(*headgate.Check)
			want   error
		}{
			{"no context", none, func(*headgate.Check) {}, headgate.ErrNilContext},
			{"a context that has ended", ended, func(*headgate.Check) {}, context.Canceled},
			{"no key", t.Context(), func(c *headgate.Check) { c.Key = "" }, headgate.ErrInvalidCheck},
			{"a long key", t.Context(), func(c *headgate.Check) { c.Key = strings.Repeat("a", 5000) }, headgate.ErrInvalidCheck},
			{"a cost below 0", t.Context(), func(c *headgate.Check) { c.Cost = -1 }, headgate.ErrInvalidCheck},
			{"no limit", t.Context(), func(c *headgate.Check) { c.Limit = headgate.Limit{} }, headgate.ErrInvalidLimit},
			{"a split below 0", t.Context(), func(c *headgate.Check) { c.Split = -1 }, headgate.ErrInvalidCheck},
			{"no such policy", t.Context(), func(c *headgate.Check) { c.OnFailure = 9 }, headgate.ErrInvalidCheck},
			{"an impossible safe limit", t.Context(), func(c *headgate.Check) { c.Safe = &headgate.Limit{} }, headgate.ErrInvalidLimit},
		} {
			c := good
			tt.change(&c)
			if d, err := l.Take(tt.ctx, c); !errors.Is(err, tt.want) {
				t.Errorf("take with %s: got %+v, %v, want %v", tt.name, d, err, tt.want)
			}
			if ds, err := l.TakeAll(tt.ctx, []headgate.Check{c}, nil); !errors.Is(err, tt.want) || len(ds) != 0 {
				t.Errorf("take all with %s: got %+v, %v, want %v", tt.name, ds, err, tt.want)
			}
		}
		if got := w.callsMade(); got != calls {
			t.Errorf("%d calls, want none", got-calls)
		}
	})
}
