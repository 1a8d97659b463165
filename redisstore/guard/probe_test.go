package guard

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestOnlyProbesCallTheStoreWhileTheCircuitIsOpen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, f, Options{})
		goDown(t, g, f, "a")
		calls, start := f.calls.Load(), time.Now()
		var at []time.Duration // times of the probes
		for time.Since(start) < urgentTime+5*time.Second {
			before := f.calls.Load()
			if got := took(func() { take(t, g, check("a/1", "10/s")) }); got != 0 {
				t.Fatalf("took %v with the circuit open, want no time", got)
			}
			if got := f.calls.Load(); got != before {
				t.Fatalf("a request was sent with the circuit open")
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if f.calls.Load() != before {
				at = append(at, time.Since(start))
			}
		}
		if got := f.calls.Load() - calls; got != int64(len(at)) || got != f.looks.Load() {
			t.Errorf("%d calls at %d times, %d of them looks", got, len(at), f.looks.Load())
		}
		for i, when := range at {
			since := when
			if i > 0 {
				since -= at[i-1]
			}
			most := min(firstDelay<<min(i, 8), maxUrgentDelay)
			if when-since > urgentTime+maxUrgentDelay { // two probes ago it was no longer in haste
				most = maxProbeDelay
			} else if when-since > urgentTime-maxUrgentDelay { // it is about to double
				continue
			}
			if since > most+time.Millisecond || since < most*3/4 {
				t.Errorf("probe %d after %v, want %v to %v", i, since, most*3/4, most)
			}
		}
		if last := at[len(at)-1] - at[len(at)-2]; last < maxProbeDelay*3/4 { // less a quarter by chance
			t.Errorf("after %v probes are still %v apart", at[len(at)-1], last)
		}
	})
}

func TestProberReplacesThePeek(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := probedFake{newFake(t, nil), new(atomic.Int64)}
		g := newGuard(t, f, Options{})
		goDown(t, g, f.fakeStore, "a")
		f.breaks("", fault{hangs: true})
		time.Sleep(2 * time.Second)
		if !isOpen(g, "") || f.probes.Load() < 3 || f.looks.Load() != 0 {
			t.Errorf("open %v, %d probes, %d looks: want open, some, none", isOpen(g, ""), f.probes.Load(), f.looks.Load())
		}
		f.breaks("", fault{})
		time.Sleep(time.Second)
		if isOpen(g, "") {
			t.Error("still open a second after the probe would pass")
		}
	})
}

func TestProbesSlowDownIfCallsStillFail(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := probedFake{newFake(t, nil), new(atomic.Int64)}
		g := newGuard(t, f, Options{})
		f.breaks("a", fault{err: errRefused})
		const seconds = 20
		for range seconds * 100 {
			take(t, g, check("a/1", "1000/s"))
			time.Sleep(10 * time.Millisecond)
		}
		if got := f.calls.Load(); got > 3*(tripInRow+1)*seconds {
			t.Errorf("%d calls in %d s", got, seconds)
		}
	})
}
