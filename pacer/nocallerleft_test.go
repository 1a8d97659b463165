package pacer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// After any sequence of calls no caller is left waiting, and none spins: synctest would hang.
func TestNobodyIsForgotten(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := seeded(t, seed)
			b := newBursty(t, BurstyOptions{Rate: PerSecond(10), MaxBurst: []int64{0, NoBurst, 5}[rng.IntN(3)]})
			w := newWarmingUp(t, WarmingUpOptions{Rate: PerSecond(10), WarmUp: time.Second})
			a := newAllowance(t, PerSecond(10))
			tokens := newTokenQueue(t, TokenQueueOptions{Rate: PerSecond(10), Capacity: 10})
			q := newQueue(t, PerSecond(10), 1000)
			pacers := []Pacer{b, w, a, tokens, q}
			var held []Reservation
			var wg sync.WaitGroup
			random := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most))) }
			for range 150 {
				p, n := pacers[rng.IntN(len(pacers))], 1+rng.Int64N(8)
				switch rng.IntN(8) {
				case 0, 1:
					ctx, cancel := context.WithCancel(context.Background())
					if rng.IntN(2) == 0 {
						time.AfterFunc(random(5*time.Second), cancel)
					}
					wg.Go(func() {
						defer cancel()
						_, err := p.Acquire(ctx, n)
						if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrNever) {
							t.Errorf("seed %d: %v", seed, err)
						}
					})
				case 2:
					timeout := random(3 * time.Second)
					wg.Go(func() {
						start := time.Now()
						if p.TryAcquire(n, timeout); time.Since(start) > timeout {
							t.Errorf("seed %d: TryAcquire takes %v, want at most %v", seed, time.Since(start), timeout)
						}
					})
				case 3:
					held = append(held, p.Reserve(n))
				case 4:
					if len(held) > 0 {
						held[rng.IntN(len(held))].Cancel()
					}
				case 5:
					r := PerSecond(1 + rng.Int64N(20))
					period := Rate{5 + rng.Int64N(20), 1 + random(2*time.Second)}
					if err := errors.Join(b.SetRate(r), w.SetRate(r), a.SetRate(period)); err != nil {
						t.Errorf("seed %d: %v", seed, err)
					}
				case 6:
					takes := random(time.Second)
					result := submit(context.Background(), t, q, n, func(context.Context) error {
						time.Sleep(takes)
						return nil
					})
					wg.Go(func() { <-result })
				case 7:
					time.Sleep(random(500 * ms))
				}
				if rng.IntN(2) == 0 {
					synctest.Wait()
				}
			}
			wg.Wait()
			time.Sleep(24 * time.Hour)
			for i, l := range []*callerQueue{&b.callerQueue, &w.callerQueue, &a.callerQueue, &tokens.callerQueue, &q.callerQueue} {
				l.mu.Lock()
				_, now := l.clock()
				l.admitDue(now)
				if l.first != nil || l.waiting != 0 || l.reservations != 0 || l.waitingPermits != 0 {
					t.Errorf("seed %d: pacer %d has %d waiting, %d promises and %d units, want none", seed, i, l.waiting, l.reservations, l.waitingPermits)
				}
				l.mu.Unlock()
			}
		})
	}
}
