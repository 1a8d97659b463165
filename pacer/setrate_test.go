package pacer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSetRateOfBursty(t *testing.T) {
	for _, c := range []struct {
		name  string
		burst int64
		idle  time.Duration
		take  int64
		rate  Rate
		waits []time.Duration // of single permits after that
	}{
		{"what was taken is paid off at the old rate", 0, 0, 10, PerSecond(100), []time.Duration{
			1000 * ms, 1010 * ms, 1020 * ms,
		}},
		{"a lower rate", 0, 0, 10, PerSecond(1), []time.Duration{1 * time.Second, 2 * time.Second}},
		{"by default as many seconds' worth stay saved", 0, 300 * ms, 0, Rate{20, time.Second}, []time.Duration{
			0, 0, 0, 0, 0, 0, // 0.3 s are worth 6 now
			0, 50 * ms,
		}},
		{"a burst in permits stays that", 10, 300 * ms, 0, PerSecond(20), []time.Duration{
			0, 0, 0, 0, 50 * ms,
		}},
		{"a burst in permits stays that at a rate without a common measure", 10, 300 * ms, 0, PerSecond(7), []time.Duration{
			0, 0, 0, 0, 142_857_143,
		}},
		{"no burst", NoBurst, 300 * ms, 0, PerSecond(20), []time.Duration{0, 50 * ms}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBursty(t, BurstyOptions{Rate: PerSecond(10), MaxBurst: c.burst})
				time.Sleep(c.idle)
				if c.take > 0 {
					b.Reserve(c.take)
				}
				if err := b.SetRate(c.rate); err != nil {
					t.Fatal(err)
				}
				if got := b.Rate(); got != c.rate {
					t.Errorf("Rate() = %v, want %v", got, c.rate)
				}
				for i, want := range c.waits {
					if got := b.Reserve(1).Delay(); got != want {
						t.Errorf("permit %d waits %v, want %v", i+1, got, want)
					}
				}
			})
		})
	}
}

// The first in line waits for what was taken at the old rate; those behind it hear of the new one at once.
func TestSetRateMovesThoseInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBursty(t, BurstyOptions{Rate: PerSecond(1)})
		time.AfterFunc(500*ms, func() {
			if err := b.SetRate(PerSecond(10)); err != nil {
				t.Error(err)
			}
		})
		play(t, b.Acquire, []caller{
			{at: 0, n: 1, returns: 0},
			{at: 1, n: 5, returns: 1000 * ms},
			{at: 2, n: 1, returns: 1500 * ms},
			{at: 3, n: 1, returns: 1600 * ms},
			{at: 600 * ms, n: 1, returns: 1700 * ms},
		})
	})
}

func TestSetRateKeepsWhatReservationsWerePromised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBursty(t, BurstyOptions{Rate: PerSecond(10)})
		b.Reserve(10)
		second, third := b.Reserve(10), b.Reserve(10)
		if err := b.SetRate(PerSecond(1)); err != nil {
			t.Fatal(err)
		}
		if got, want := second.Delay(), 1*time.Second; got != want {
			t.Errorf("the second waits %v, want %v", got, want)
		}
		if got, want := third.Delay(), 2*time.Second; got != want {
			t.Errorf("the third waits %v, want %v", got, want)
		}
		// Those two cost ten seconds each now, although the third goes before the second is paid off.
		if got, want := b.Reserve(1).Delay(), 21*time.Second; got != want {
			t.Errorf("the next waits %v, want %v", got, want)
		}
	})
}

func TestSetRateOfWarmingUpKeepsItsWarmth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWarmingUp(t, WarmingUpOptions{Rate: PerSecond(2), WarmUp: 4 * time.Second})
		// Four of eight taken: warm, at the threshold.
		w.Reserve(4)
		if err := w.SetRate(PerSecond(20)); err != nil {
			t.Fatal(err)
		}
		if got, want := w.Rate(), PerSecond(20); got != want {
			t.Errorf("Rate() = %v, want %v", got, want)
		}
		// What was taken is paid off at the old rate, and then it is warm at the new one.
		for i, want := range []time.Duration{4000 * ms, 4050 * ms, 4100 * ms} {
			if got := w.Reserve(1).Delay(); got != want {
				t.Errorf("permit %d waits %v, want %v", i+1, got, want)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWarmingUp(t, WarmingUpOptions{Rate: PerSecond(2), WarmUp: 4 * time.Second})
		if err := w.SetRate(PerSecond(20)); err != nil {
			t.Fatal(err)
		}
		// Still cold: the permits above the new threshold, 2·4 s·20/(1+3), cost the warm-up period.
		w.Reserve(40)
		if got, want := w.Reserve(1).Delay(), 4*time.Second; got != want {
			t.Errorf("after a cold start at the new rate the next permit waits %v, want %v", got, want)
		}
	})
}

func TestSetRateOfAllowance(t *testing.T) {
	for _, c := range []struct {
		name    string
		after   time.Duration
		rate    Rate
		callers []caller
	}{
		{"a higher number can be had at once", 500 * ms, PerSecond(15), []caller{
			{at: 0, n: 8, returns: 0},
			{at: 1, n: 7, returns: 500 * ms},
			{at: 600 * ms, n: 1, returns: time.Second},
		}},
		{"a lower number counts what is taken", 500 * ms, PerSecond(5), []caller{
			{at: 0, n: 8, returns: 0},
			{at: 600 * ms, n: 1, returns: 1 * time.Second},
			{at: 700 * ms, n: 5, returns: 2 * time.Second},
		}},
		{"those who want more than there now is are sent away, and the others move up", 500 * ms, PerSecond(9), []caller{
			{at: 0, n: 8, returns: 0},
			{at: 1, n: 10, returns: 500 * ms, err: ErrNever},
			{at: 2, n: 1, returns: 500 * ms},
			{at: 3, n: 9, returns: 1 * time.Second},
		}},
		{"a longer period keeps its start", 500 * ms, Rate{10, 3 * time.Second}, []caller{
			{at: 0, n: 10, returns: 0},
			{at: 1, n: 10, returns: 3 * time.Second},
			{at: 2, n: 10, returns: 6 * time.Second},
		}},
		{"a shorter period keeps its start", 500 * ms, Rate{10, 200 * ms}, []caller{
			{at: 0, n: 10, returns: 0},
			{at: 1, n: 10, returns: 500 * ms}, // in the period from 400 to 600 ms
			{at: 2, n: 10, returns: 600 * ms},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAllowance(t, PerSecond(10))
				time.AfterFunc(c.after, func() {
					if err := a.SetRate(c.rate); err != nil {
						t.Error(err)
					}
				})
				play(t, a.Acquire, c.callers)
				if got := a.Rate(); got != c.rate {
					t.Errorf("Rate() = %v, want %v", got, c.rate)
				}
			})
		})
	}
}

func TestSetRateRefusesBadRatesAndChangesNothing(t *testing.T) {
	b := newBursty(t, BurstyOptions{Rate: PerSecond(10), MaxBurst: 1_000_000_000})
	w := newWarmingUp(t, WarmingUpOptions{Rate: PerSecond(10), WarmUp: time.Second})
	a := newAllowance(t, PerSecond(10))
	for _, p := range []struct {
		name string
		set  func(Rate) error
		get  func() Rate
		bad  Rate
	}{
		{"Bursty", b.SetRate, b.Rate, Rate{1, 24 * time.Hour}}, // its burst would take too long to save
		{"WarmingUp", w.SetRate, w.Rate, Rate{1<<62 - 1, time.Second}},
		{"Allowance", a.SetRate, a.Rate, Rate{1, -1}},
	} {
		for _, r := range []Rate{{}, {0, time.Second}, {-1, time.Second}, {1, 0}, {1, time.Duration(farFuture)}, p.bad} {
			if err := p.set(r); !errors.Is(err, ErrInvalidOption) {
				t.Errorf("%s.SetRate(%v) = %v, want ErrInvalidOption", p.name, r, err)
			}
			if got, want := p.get(), PerSecond(10); got != want {
				t.Errorf("%s.Rate() after SetRate(%v) = %v, want %v", p.name, r, got, want)
			}
		}
	}
	for name, err := range map[string]error{
		"Bursty":    new(Bursty).SetRate(PerSecond(1)),
		"WarmingUp": new(WarmingUp).SetRate(PerSecond(1)),
		"Allowance": new(Allowance).SetRate(PerSecond(1)),
	} {
		if !errors.Is(err, ErrUninitialized) {
			t.Errorf("SetRate of a zero %s = %v, want ErrUninitialized", name, err)
		}
	}
	if _, err := b.Acquire(context.Background(), 1); err != nil {
		t.Errorf("Acquire after refusals: %v", err)
	}
}

// With another period a promise may lie in the middle of one. Those behind it wait for it, and nobody spins until then.
func TestSetRateOfAllowanceKeepsCallersBehindAPromise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAllowance(t, PerSecond(10))
		a.Reserve(10)
		promised := a.Reserve(1) // at 1 s
		if err := a.SetRate(Rate{10, 900 * ms}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if a.TryAcquire(1, 1000*ms-1) {
			t.Error("TryAcquire for less than until the promise = true, want false")
		}
		if got := time.Since(start); got != 0 {
			t.Errorf("TryAcquire says so after %v, want at once", got)
		}
		waited, err := a.Acquire(context.Background(), 1)
		if err != nil || waited != time.Second || promised.Delay() != 0 {
			t.Errorf("Acquire = %v, %v, want 1s, nil, when the promise is due", waited, err)
		}
	})
}
