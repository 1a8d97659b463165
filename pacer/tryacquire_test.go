package pacer

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTryAcquireWaitsOnlyIfTheTurnComesInTime(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T) Pacer
		// Ten go at once, and then the next one waits so long.
		wait time.Duration
	}{
		{"Bursty", func(t *testing.T) Pacer { return newBursty(t, BurstyOptions{Rate: PerSecond(10)}) }, time.Second},
		{"WarmingUp", func(t *testing.T) Pacer {
			// Factor 1 has no surcharge.
			return newWarmingUp(t, WarmingUpOptions{Rate: PerSecond(10), WarmUp: time.Second, ColdFactor: 1})
		}, time.Second},
		{"Allowance", func(t *testing.T) Pacer { return newAllowance(t, PerSecond(10)) }, time.Second},
		{"Queue", func(t *testing.T) Pacer { return newQueue(t, PerSecond(10), 10) }, time.Second},
		{"TokenQueue", func(t *testing.T) Pacer {
			return newTokenQueue(t, TokenQueueOptions{Rate: PerSecond(1), Capacity: 10, StartFull: true})
		}, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := c.make(t)
				start := time.Now()
				check := func(n int64, timeout time.Duration, want bool, back time.Duration) {
					t.Helper()
					if got, at := p.TryAcquire(n, timeout), time.Since(start); got != want || at != back {
						t.Errorf("TryAcquire(%d, %v) = %v at %v, want %v at %v", n, timeout, got, at, want, back)
					}
				}
				check(10, 0, true, 0)
				check(1, 0, false, 0)
				check(1, -time.Second, false, 0)
				check(1, c.wait-1, false, 0)
				check(0, time.Hour, false, 0)
				check(-1, time.Hour, false, 0)
				check(1, c.wait, true, c.wait)
			})
		})
	}
}

func TestTryAcquireGivesUpWhenALowerRateMakesItLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBursty(t, BurstyOptions{Rate: PerSecond(10)})
		start := time.Now()
		b.Reserve(10)
		go b.TryAcquire(10, time.Second)
		synctest.Wait()
		late := make(chan time.Duration)
		go func() {
			if b.TryAcquire(1, 3*time.Second) {
				t.Error("TryAcquire = true, want false: the turn was to come at 2 s and comes at 11 s")
			}
			late <- time.Since(start)
		}()
		synctest.Wait()
		if err := b.SetRate(PerSecond(1)); err != nil {
			t.Fatal(err)
		}
		if got, want := <-late, 3*time.Second; got != want {
			t.Errorf("TryAcquire returns at %v, want %v", got, want)
		}
		if got, want := b.Reserve(1).Delay(), 8*time.Second; got != want {
			t.Errorf("the next reservation waits %v, want %v: the other took nothing", got, want)
		}
	})
}
