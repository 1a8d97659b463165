package lease

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
)

func TestGiveGoesToTheLeaseThatLivesElseToTheStore(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(1000)}
		warm(t, l, c)
		h := l.table.find(l.table.hash("a"), "a", &c.Limit)
		c.Cost = 4
		d := mustLease(t, l, c)
		held, calls := h.held(l.clock.Elapsed()), w.callsMade()
		if err := l.Give(t.Context(), c, d.Receipt); err != nil {
			t.Fatal(err)
		}
		if got := h.held(l.clock.Elapsed()); got != held+4 || w.callsMade() != calls {
			t.Errorf("%d held and %d calls after 4 were given to %d, want them here without a call", got, w.callsMade()-calls, held)
		}
		if err := l.Give(t.Context(), c, d.Receipt); err != nil {
			t.Fatal(err)
		}
		h.mu.Lock()
		size := h.grants[len(h.grants)-1].size
		h.mu.Unlock()
		if got := h.held(l.clock.Elapsed()); got > size {
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
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
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
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, _ *leaseWire) {
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
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
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

// What a node holds under the old limit is handed back before the new limit is asked for. It is not consumed, and at
// the new rate it would take days until it counted no more.
func TestAChangedLimitDoesNotCountWhatIsHeld(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.Limit{Count: 1000, Period: time.Second, Burst: 10000}, Cost: 100}
		var taken int64
		for range 100 {
			if mustLease(t, l, c).Allowed {
				taken += c.Cost
			}
			time.Sleep(time.Millisecond)
		}
		stored := remaining(t, w, c)
		c.Cost = 0
		left := mustLease(t, l, c).Remaining
		if left <= stored {
			t.Fatalf("%d are left with what is held, %d without: nothing is held, so that this shows nothing", left, stored)
		}
		c.Limit = headgate.Limit{Count: 100, Period: 24 * time.Hour, Burst: 10000}
		if d := mustLease(t, l, c); d.Remaining < left-1 || d.Remaining > left {
			t.Errorf("a look under the new limit: got %d left, want the %d of the old one", d.Remaining, left)
		}
		c.Cost = 1
		if d := mustLease(t, l, c); !d.Allowed {
			t.Fatalf("got %+v, want it allowed", d)
		}
		if got := remaining(t, w, c); got < left-2 || got > left {
			t.Errorf("after a take under the new limit: got %d left, want the %d of the old one less 1", got, left)
		}
	})
}

func TestResetForgetsWhatIsHeld(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
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

// What is granted while a reset is under way may be from before it. It is not used, and who waits is served by another
// call.
func TestAGrantThatAResetOvertakesIsNotUsed(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
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

// What is refused while a reset is under way may be so by what was consumed before it. Nobody is denied for that.
func TestARefusalThatAResetOvertakesDeniesNobody(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100), Cost: 100}
		if d, err := w.store.Take(t.Context(), c); err != nil || !d.Allowed {
			t.Fatalf("got %+v, %v, want all of it", d, err)
		}
		w.delay = roundTrip(20 * time.Millisecond)
		c.Cost = 60
		got := make(chan headgate.Decision)
		go func() { got <- mustLease(t, l, c) }()
		time.Sleep(15 * time.Millisecond) // it is refused, and that is on its way
		if err := l.Reset(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if d := <-got; !d.Allowed {
			t.Errorf("got %+v, want it allowed", d)
		}
	})
}

// What is given back when the lease has just been forgotten goes to the store.
func TestWhatIsGivenToAForgottenLeaseGoesToTheStore(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(100), Cost: 40}
		d := mustLease(t, l, c)
		h := l.table.find(l.table.hash("a"), "a", &c.Limit)
		h.mu.Lock()
		h.removed = true // as one that makes room for another, found by who gives back a moment before
		h.mu.Unlock()
		if err := l.Give(t.Context(), c, d.Receipt); err != nil {
			t.Fatal(err)
		}
		if n := remaining(t, w, c); n != 100 {
			t.Errorf("the store has %d left, want 100", n)
		}
	})
}

func TestChargeGoesToTheStore(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
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
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerHour(10_000)}
		taken := warm(t, l, c)
		c.Cost = 0
		if d := mustLease(t, l, c); d.Remaining != 10_000-taken {
			t.Errorf("got %+v, want %d remaining, of which the store has %d", d, 10_000-taken, remaining(t, w, c))
		}
	})
}

// A node on which the rules are newer does not let more pass than the higher of both limits.
func TestNodesWithDifferentLimitsShareOneCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newVirtualFleet(t, 2, roundTrip(time.Millisecond), Options{})
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
