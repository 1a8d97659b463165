package pacer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A thousand simultaneous callers get their permits one interval apart.
func TestAThousandCallersAreSpacedExactly(t *testing.T) {
	const crowd = 1000
	for name, c := range map[string]struct {
		acquire func(t *testing.T) func(context.Context, int64) (time.Duration, error)
		due     func(i int64) time.Duration // of the i-th permit
	}{
		"Bursty": {func(t *testing.T) func(context.Context, int64) (time.Duration, error) {
			return newBursty(t, BurstyOptions{Rate: PerSecond(300)}).Acquire
		}, func(i int64) time.Duration { return time.Duration(ceilDiv(i, int64(time.Second), 300)) }},
		"Queue": {func(t *testing.T) func(context.Context, int64) (time.Duration, error) {
			return newQueue(t, PerSecond(300), crowd).Acquire
		}, func(i int64) time.Duration { return time.Duration(ceilDiv(i, int64(time.Second), 300)) }},
		"TokenQueue": {func(t *testing.T) func(context.Context, int64) (time.Duration, error) {
			return newTokenQueue(t, TokenQueueOptions{Rate: PerSecond(300), Capacity: 1}).Acquire
		}, func(i int64) time.Duration { return time.Duration(ceilDiv(i+1, int64(time.Second), 300)) }},
		"Allowance": {func(t *testing.T) func(context.Context, int64) (time.Duration, error) {
			return newAllowance(t, PerSecond(300)).Acquire
		}, func(i int64) time.Duration { return time.Duration(i/300) * time.Second }},
		"WarmingUp": {func(t *testing.T) func(context.Context, int64) (time.Duration, error) {
			return newWarmingUp(t, WarmingUpOptions{Rate: PerSecond(300), WarmUp: time.Second, ColdFactor: 1}).Acquire
		}, func(i int64) time.Duration { return time.Duration(ceilDiv(i, int64(time.Second), 300)) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				acquire := c.acquire(t)
				start := time.Now()
				back := make(map[time.Duration]int)
				var mu sync.Mutex
				var wg sync.WaitGroup
				for range crowd {
					wg.Go(func() {
						if _, err := acquire(context.Background(), 1); err != nil {
							t.Error(err)
						}
						mu.Lock()
						defer mu.Unlock()
						back[time.Since(start)]++
					})
				}
				wg.Wait()
				want := make(map[time.Duration]int)
				for i := range int64(crowd) {
					want[c.due(i)]++
				}
				for at, n := range want {
					if back[at] != n {
						t.Errorf("at %v %d callers are back, want %d", at, back[at], n)
					}
				}
			})
		})
	}
}

// A thousand callers in real time, half of whom give up, on all processors: what they got is never more than the rate
// allows, and those who gave up left nothing behind.
func TestAThousandCallersWhoComeAndGo(t *testing.T) {
	const crowd, each = 1000, 5
	rate := PerSecond(50_000)
	for name, acquire := range map[string]func(context.Context, int64) (time.Duration, error){
		"Bursty":     newBursty(t, BurstyOptions{Rate: rate, MaxBurst: 10}).Acquire,
		"WarmingUp":  newWarmingUp(t, WarmingUpOptions{Rate: rate, WarmUp: time.Millisecond}).Acquire,
		"Queue":      newQueue(t, rate, 200).Acquire,
		"TokenQueue": newTokenQueue(t, TokenQueueOptions{Rate: rate, Capacity: 10}).Acquire,
		"Allowance":  newAllowance(t, Rate{50, time.Millisecond}).Acquire,
	} {
		t.Run(name, func(t *testing.T) {
			var got, refused atomic.Int64
			var wg sync.WaitGroup
			start := time.Now()
			for i := range crowd {
				wg.Go(func() {
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					if i%2 == 0 {
						time.AfterFunc(time.Duration(i%50)*time.Millisecond/2, cancel)
					}
					for range each {
						_, err := acquire(ctx, 1)
						switch {
						case err == nil:
							got.Add(1)
						case errors.Is(err, context.Canceled) && i%2 == 0, errors.Is(err, ErrQueueFull):
							refused.Add(1)
						default:
							t.Errorf("caller %d: %v", i, err)
						}
					}
				})
			}
			wg.Wait()
			took := time.Since(start)
			if got.Load()+refused.Load() != crowd*each {
				t.Errorf("%d granted and %d refused, want %d together", got.Load(), refused.Load(), crowd*each)
			}
			// 100 to spare: an Allowance has two periods' worth across a border, the others a burst and a little.
			if most := 100 + int64(took)*rate.Permits/int64(rate.Per); got.Load() > most {
				t.Errorf("%d permits in %v, want at most %d", got.Load(), took, most)
			}
			if got.Load() == 0 {
				t.Error("nobody got a permit")
			}
			if _, err := acquire(context.Background(), 1); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// Everything that changes a pacer, from many goroutines: the race detector looks on, and nobody is forgotten in line.
func TestEverythingAtOnce(t *testing.T) {
	b := newBursty(t, BurstyOptions{Rate: PerSecond(100_000), MaxBurst: 5})
	w := newWarmingUp(t, WarmingUpOptions{Rate: PerSecond(100_000), WarmUp: time.Millisecond})
	a := newAllowance(t, Rate{100, time.Millisecond})
	q := newQueue(t, PerSecond(100_000), 1000)
	tokens := newTokenQueue(t, TokenQueueOptions{Rate: PerSecond(100_000), Capacity: 10})
	var wg sync.WaitGroup
	var ran, submitted atomic.Int64
	check := func(_ time.Duration, err error) {
		if err != nil {
			t.Error(err)
		}
	}
	for i := range 32 {
		wg.Go(func() {
			rng := seeded(t, uint64(i))
			for range 40 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				n := 1 + rng.Int64N(5)
				switch rng.IntN(12) {
				case 0:
					check(b.Acquire(ctx, n))
				case 1:
					b.TryAcquire(n, time.Millisecond)
				case 2:
					r := b.Reserve(n)
					check(b.Acquire(ctx, 1))
					r.Cancel()
				case 3:
					if err := b.SetRate(PerSecond(50_000 + rng.Int64N(100_000))); err != nil {
						t.Error(err)
					}
				case 4:
					w.Reserve(n).Cancel()
					check(w.Acquire(ctx, n))
				case 5:
					if err := w.SetRate(PerSecond(50_000 + rng.Int64N(100_000))); err != nil {
						t.Error(err)
					}
				case 6:
					check(a.Acquire(ctx, n))
				case 7:
					if err := a.SetRate(Rate{50 + rng.Int64N(100), time.Millisecond}); err != nil {
						t.Error(err)
					}
				case 8:
					check(q.Acquire(ctx, n))
				case 9:
					submitted.Add(1)
					result, err := q.Submit(ctx, n, func(context.Context) error { ran.Add(1); return nil })
					if err == nil {
						err = <-result
					}
					if err != nil {
						t.Errorf("Submit: %v", err)
					}
				case 10:
					check(tokens.Acquire(ctx, n))
				case 11:
					short, stop := context.WithCancel(ctx)
					time.AfterFunc(10*time.Microsecond, stop)
					if _, err := b.Acquire(short, 20); err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					stop()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if ran.Load() != submitted.Load() {
		t.Errorf("%d jobs ran, want %d", ran.Load(), submitted.Load())
	}
	for name, l := range map[string]*callerQueue{"Bursty": &b.callerQueue, "WarmingUp": &w.callerQueue, "Allowance": &a.callerQueue, "Queue": &q.callerQueue, "TokenQueue": &tokens.callerQueue} {
		l.mu.Lock()
		if l.waiting != 0 {
			t.Errorf("%s: %d still in line, want 0", name, l.waiting)
		}
		l.mu.Unlock()
	}
}
