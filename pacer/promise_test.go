package pacer

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// next returns how long a permit asked for now would wait, and takes none.
func next(p Pacer) time.Duration {
	r := p.Reserve(1)
	defer r.Cancel()
	return r.Delay()
}

// wait has a goroutine acquire n, and expects it back at an instant.
func wait(t *testing.T, wg *sync.WaitGroup, p Pacer, n int64, want time.Duration) {
	t.Helper()
	start := time.Now()
	wg.Go(func() {
		if _, err := p.Acquire(context.Background(), n); err != nil {
			t.Errorf("acquire %d: %v", n, err)
		}
		if got := time.Since(start); got != want {
			t.Errorf("acquire %d waits %v, want %v", n, got, want)
		}
	})
	synctest.Wait()
}

// A lower rate makes those who wait later, but not a promise behind them: when its time comes it may be used.
func TestCancelGivesNothingOnceAPromiseIsDueBehindOneWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBursty(t, BurstyOptions{Rate: PerSecond(10), MaxBurst: NoBurst})
		var wg sync.WaitGroup
		b.Reserve(10)
		wait(t, &wg, b, 10, 1*time.Second)
		wait(t, &wg, b, 10, 11*time.Second) // was to go at 2 s
		r := b.Reserve(30)                  // at 3 s
		if err := b.SetRate(PerSecond(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		before := next(b)
		if want := 46 * time.Second; before != want { // 1 s, and 50 permits
			t.Errorf("the next waits %v, want %v", before, want)
		}
		r.Cancel()
		if after := next(b); after != before {
			t.Errorf("after the Cancel of one that was due the next waits %v, want %v", after, before)
		}
		wg.Wait()
	})
}

// The pacer doesn't cool in the gap that a Cancel leaves before a promise.
func TestCancelMakesNobodyWaitLongerForAWarmingUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		sizes [3]int64
		want  time.Duration
	}{
		{"from the threshold", [3]int64{4, 4, 1}, 6500 * ms},
		{"with the promise at the cold end", [3]int64{1, 7, 4}, 8 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWarmingUp(t, WarmingUpOptions{Rate: PerSecond(2), WarmUp: 4 * time.Second})
				w.Reserve(c.sizes[0])
				second := w.Reserve(c.sizes[1])
				w.Reserve(c.sizes[2])
				var wg sync.WaitGroup
				wait(t, &wg, w, 1, c.want)
				wait(t, &wg, w, 3, c.want+500*ms)
				last := w.Reserve(10)
				if got, want := last.Delay(), c.want+2*time.Second; got != want {
					t.Errorf("the last is promised for %v, want %v", got, want)
				}
				second.Cancel()
				time.Sleep(c.want + 2*time.Second)
				before := next(w)
				last.Cancel() // its time has come
				if after := next(w); after != before {
					t.Errorf("after the Cancel of one that was due the next waits %v, want %v", after, before)
				}
				wg.Wait()
			})
		})
	}
}

// After any cancellation, no caller passes later than it was promised.
func TestCancelMakesNobodyWaitLonger(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := seeded(t, seed)
			for name, p := range map[string]Pacer{
				"Bursty":     newBursty(t, BurstyOptions{Rate: PerSecond(10), MaxBurst: 3}),
				"NoBurst":    newBursty(t, BurstyOptions{Rate: PerSecond(10), MaxBurst: NoBurst}),
				"WarmingUp":  newWarmingUp(t, WarmingUpOptions{Rate: PerSecond(10), WarmUp: 2 * time.Second}),
				"Allowance":  newAllowance(t, PerSecond(10)),
				"TokenQueue": newTokenQueue(t, TokenQueueOptions{Rate: PerSecond(10), Capacity: 10}),
				"Queue":      newQueue(t, PerSecond(10), 1000),
			} {
				var wg sync.WaitGroup
				var held []Reservation
				p.Reserve(5)
				for range 12 {
					n := 1 + rng.Int64N(10)
					r := p.Reserve(n)
					if rng.IntN(2) == 0 || r.Delay() == 0 {
						held = append(held, r)
						continue
					}
					told := r.Delay()
					r.Cancel()
					start := time.Now()
					wg.Go(func() {
						_, err := p.Acquire(context.Background(), n)
						// A time that was promised is a whole nanosecond; each on the way may be rounded up once.
						if got := time.Since(start); got > told+12 || err != nil {
							t.Errorf("%s, seed %d: waits %v with %v, want at most %v", name, seed, got, err, told)
						}
					})
					synctest.Wait()
				}
				for _, r := range held {
					if rng.IntN(2) == 0 {
						r.Cancel()
					}
					time.Sleep(time.Duration(rng.Int64N(int64(300 * ms))))
				}
				wg.Wait()
			}
		})
	}
}

// setter is a pacer whose rate can be set.
type setter interface {
	Pacer
	SetRate(r Rate) error
}

// Callers that a new rate can never serve are rejected, and do not block the queue when it is raised again.
func TestSetRateSendsAwayThoseWhoCanNeverPass(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T) setter
	}{
		{"Bursty", func(t *testing.T) setter {
			return newBursty(t, BurstyOptions{Rate: PerSecond(1000_000)})
		}},
		{"WarmingUp", func(t *testing.T) setter {
			return newWarmingUp(t, WarmingUpOptions{Rate: PerSecond(1000_000), WarmUp: time.Second, ColdFactor: 1})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := c.make(t)
				p.Reserve(1000_000)
				results := make(chan error, 2)
				for range 2 {
					go func() {
						_, err := p.Acquire(context.Background(), 1000_000)
						results <- err
					}()
					synctest.Wait()
				}
				promised := p.Reserve(1000_000) // at 3 s
				if err := p.SetRate(Rate{1, 24 * time.Hour}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				for i := range 2 {
					select {
					case err := <-results:
						if !errors.Is(err, ErrNever) {
							t.Errorf("waiter %d: got %v, want ErrNever", i+1, err)
						}
					default:
						t.Errorf("waiter %d is still in line", i+1)
					}
				}
				time.Sleep(4 * time.Second)
				if got := promised.Delay(); got != 0 {
					t.Errorf("the promise is %v away, want 0", got)
				}
				if err := p.SetRate(PerSecond(1000_000)); err != nil {
					t.Fatal(err)
				}
				if r := p.Reserve(1); !r.OK() || r.Delay() != 0 {
					t.Errorf("at the old rate again: Err %v, delay %v, want nil, 0", r.Err(), r.Delay())
				}
			})
		})
	}
}

func TestSetRateOfAllowanceSendsAwayThoseWhosePeriodNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAllowance(t, PerSecond(1))
		const years = 365 * 24 * time.Hour
		time.AfterFunc(100*ms, func() {
			if err := a.SetRate(Rate{1, 40 * years}); err != nil {
				t.Error(err)
			}
		})
		time.AfterFunc(200*ms, func() {
			if err := a.SetRate(PerSecond(1)); err != nil {
				t.Error(err)
			}
		})
		play(t, a.Acquire, []caller{
			{at: 0, n: 1, returns: 0},
			{at: 1, n: 1, returns: time.Second},
			{at: 2, n: 1, returns: 100 * ms, err: ErrNever}, // after 80 years
			{at: 300 * ms, n: 1, returns: 2 * time.Second},
		})
	})
}

func TestReservationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBursty(t, BurstyOptions{Rate: PerSecond(1000), MaxBurst: NoBurst})
		b.Reserve(1) // is due at once
		var last Reservation
		for i := range MaxReservations {
			if last = b.Reserve(1); !last.OK() {
				t.Fatalf("reservation %d: %v, want nil", i+1, last.Err())
			}
		}
		refused := b.Reserve(1)
		if refused.OK() || !errors.Is(refused.Err(), ErrTooManyReservations) || refused.Delay() != math.MaxInt64 {
			t.Errorf("one too many: OK %v, Err %v, want false, ErrTooManyReservations", refused.OK(), refused.Err())
		}
		last.Cancel()
		if r := b.Reserve(1); !r.OK() || r.Delay() != MaxReservations*time.Millisecond {
			t.Errorf("in the place of one cancelled: Err %v, delay %v, want nil, %v", r.Err(), r.Delay(),
				MaxReservations*time.Millisecond)
		}
		time.Sleep(time.Millisecond) // the first one's time has come
		if r := b.Reserve(1); !r.OK() {
			t.Errorf("in the place of one that was due: %v, want nil", r.Err())
		}
	})
}

// A promise costs what the new rate says, also when one in front of it is cancelled afterwards.
func TestCancelAfterSetRateGoesByTheNewRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, p := range map[string]setter{
			"Bursty":    newBursty(t, BurstyOptions{Rate: PerSecond(10), MaxBurst: NoBurst}),
			"WarmingUp": newWarmingUp(t, WarmingUpOptions{Rate: PerSecond(10), WarmUp: time.Second, ColdFactor: 1}),
		} {
			p.Reserve(10)
			second := p.Reserve(10) // at 1 s
			p.Reserve(10)           // at 2 s
			if err := p.SetRate(PerSecond(1)); err != nil {
				t.Fatal(err)
			}
			if got, want := next(p), 21*time.Second; got != want {
				t.Errorf("%s: the next waits %v, want %v", name, got, want)
			}
			second.Cancel()
			if got, want := next(p), 12*time.Second; got != want {
				t.Errorf("%s: after the Cancel the next waits %v, want %v", name, got, want)
			}
		}
	})
}
