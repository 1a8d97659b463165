package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
)

func TestCircuitOpensAfterFailuresInARow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, f, Options{})
		f.breaks("a", fault{err: errRefused})
		for i := range tripInRow {
			if isOpen(g, "") {
				t.Fatalf("open after %d failures, want %d", i, tripInRow)
			}
			take(t, g, check(fmt.Sprint("a/", i), "10/s"))
		}
		if !isOpen(g, "") {
			t.Fatalf("closed after %d failures", tripInRow)
		}
	})
}

func TestCircuitOpensForRareCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, f, Options{})
		f.breaks("a", fault{err: errRefused})
		for range tripInRow - 1 {
			take(t, g, check("a/1", "10/s"))
			time.Sleep(2 * tripWindow)
		}
		f.breaks("a", fault{})
		take(t, g, check("a/1", "10/s"))
		f.breaks("a", fault{err: errRefused})
		for i := range tripInRow {
			if isOpen(g, "") {
				t.Fatalf("open after %d failures in a row, want %d", i, tripInRow)
			}
			take(t, g, check("a/1", "10/s"))
			time.Sleep(2 * tripWindow)
		}
		if !isOpen(g, "") {
			t.Fatalf("closed after %d failures in a row", tripInRow)
		}
	})
}

func TestAnyCallCanOpenTheCircuitAndAnyCheckCanBeProbed(t *testing.T) {
	ctx, c := context.Background(), check("a/1", "10/s")
	for what, fails := range map[string]func(g *Guard){
		"Take":    func(g *Guard) { _, _ = g.Take(ctx, c) },
		"TakeAll": func(g *Guard) { _, _ = g.TakeAll(ctx, []headgate.Check{c, check("a/2", "10/s")}, nil) },
		"Charge":  func(g *Guard) { _, _ = g.Charge(ctx, c) },
		"Give":    func(g *Guard) { _ = g.Give(ctx, c, headgate.Receipt{At: 1, Units: 1}) },
		"Reset":   func(g *Guard) { _ = g.Reset(ctx, headgate.Check{Key: "a/1"}) },
	} {
		inBubble(t, func(t *testing.T) {
			f := newFake(t, nil)
			g := newGuard(t, f, Options{})
			f.breaks("a", fault{hangs: true})
			for range tripInRow {
				fails(g)
			}
			for range 100 {
				if !isOpen(g, "") {
					t.Fatalf("%s: the circuit is closed while the store hangs", what)
				}
				time.Sleep(20 * time.Millisecond)
			}
			f.breaks("a", fault{})
			time.Sleep(time.Second)
			if isOpen(g, "") {
				t.Errorf("%s: the circuit is open a second after the store is back", what)
			}
		})
	}
}

func TestCircuitOpensWhenHalfOfTheCallsFail(t *testing.T) {
	for _, tt := range []struct {
		good, bad int // in turn
		pause     time.Duration
		open      bool
	}{
		{good: 1, bad: 1, open: true},
		{good: 3, bad: 2},
		{good: 1, bad: 1, pause: 300 * time.Millisecond}, // never 20 calls within the window
	} {
		inBubble(t, func(t *testing.T) {
			f := newFake(t, nil)
			g := newGuard(t, f, Options{})
			for range 50 {
				f.breaks("a", fault{})
				for range tt.good {
					take(t, g, check("a/1", "1000/s"))
				}
				f.breaks("a", fault{err: errRefused})
				for range tt.bad {
					take(t, g, check("a/1", "1000/s"))
				}
				time.Sleep(tt.pause)
				if isOpen(g, "") {
					break
				}
			}
			if got := isOpen(g, ""); got != tt.open {
				t.Errorf("%d good and %d bad in turn, %v apart: open %v, want %v", tt.good, tt.bad, tt.pause, got, tt.open)
			}
		})
	}
}

func TestOnlyProbesCallTheStoreWhileTheCircuitIsOpen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, f, Options{})
		goDown(t, g, f, "a")
		calls, start := f.calls.Load(), time.Now()
		var at []time.Duration // when the prober came
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
			most := min(firstProbe<<min(i, 8), maxUrgentDelay)
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

func TestDecisionsAreExactAgainWithinASecondOfRecovery(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, f, Options{})
		c := check("a/1", "3/h")
		take(t, g, c)
		for _, down := range []time.Duration{0, 150 * time.Millisecond, 777 * time.Millisecond, time.Minute} {
			goDown(t, g, f, "a")
			time.Sleep(down)
			f.breaks("a", fault{})
			back := took(func() {
				for take(t, g, c).Degraded {
					time.Sleep(time.Millisecond)
				}
			})
			if back > time.Second {
				t.Errorf("down for %v: exact again after %v, want 1 s at most", down, back)
			}
			if err := g.Reset(context.Background(), c); err != nil {
				t.Fatal(err)
			}
			for want := int64(2); want >= 0; want-- {
				if d := take(t, g, c); !d.Allowed || d.Degraded || d.Remaining != want {
					t.Errorf("got %+v after recovery, want %d remaining", d, want)
				}
			}
			time.Sleep(2 * time.Second) // or it would be slower to try the next time
		}
	})
}

func TestRecoveredStoreIsNotFlooded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, f, Options{})
		goDown(t, g, f, "a")
		f.breaks("a", fault{slow: 10 * time.Millisecond}) // the probe takes a while
		stop := make(chan struct{})
		var all sync.WaitGroup
		var exact atomic.Int64
		for i := range 1000 {
			all.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						if !take(t, g, check(fmt.Sprint("a/", i), "1000/s")).Degraded {
							exact.Add(1)
						}
					}
				}
			})
		}
		before := f.calls.Load()
		f.most.Store(0)
		for isOpen(g, "") {
			if got := f.calls.Load() - before; got > 1 {
				t.Errorf("%d calls while the circuit is open, want the probe", got)
			}
			if exact.Load() != 0 {
				t.Error("an exact decision while the circuit is open")
			}
			time.Sleep(100 * time.Microsecond)
		}
		close(stop)
		all.Wait()
	})
}

func TestCallsFromBeforeAnOutageDoNotOpenTheCircuit(t *testing.T) {
	c, now := newCircuit(clock.System), time.Now()
	before := c.generation.Load()
	c.failuresInRow.Store(tripInRow)
	if !c.report(before, now, false) || !c.tryOpen(before, now, now) || !c.open.Load() {
		t.Fatal("the circuit does not open after failures in a row")
	}
	c.close(now)
	c.failuresInRow.Store(tripInRow)
	if c.report(before, now, false) || c.tryOpen(before, now, now) || c.open.Load() {
		t.Error("a call from before the outage opens the circuit")
	}
	if !c.report(c.generation.Load(), now, false) {
		t.Error("a call from after the outage does not open the circuit")
	}
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

func TestDeadShardLeavesTheOthersAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, shardedFake{f}, Options{})
		take(t, g, check("b/1", "10/s"))
		goDown(t, g, f, "a")
		for range 10 {
			if d := take(t, g, check("a/1", "10/s")); !d.Degraded {
				t.Errorf("a: got %+v, want degraded", d)
			}
		}
		if d := take(t, g, check("b/1", "10/s")); d.Degraded || d.Remaining != 8 {
			t.Errorf("b: got %+v, want exact with 8 remaining", d)
		}
		states := g.Shards()
		names := make([]string, len(states))
		for i, s := range states {
			names[i] = fmt.Sprintf("%s %v %v", s.Name, s.Open, s.Err)
		}
		if want := []string{"a true connection refused", "b false <nil>"}; !slices.Equal(names, want) {
			t.Errorf("got shards %q, want %q", names, want)
		}
	})
}

func TestStoreMayBeUnreachableFromTheBeginning(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.breaks("a", fault{hangs: true})
		var started atomic.Bool
		g := newGuard(t, f, Options{OnEvent: func(e Event) {
			if e.Kind == Opened {
				started.Store(e.Started)
			}
		}})
		var all sync.WaitGroup
		for i := range tripInRow {
			all.Go(func() { take(t, g, check(fmt.Sprint("a/", i), "10/s")) })
		}
		all.Wait()
		synctest.Wait()
		if !isOpen(g, "") || !started.Load() {
			t.Errorf("open %v, told so %v: want both", isOpen(g, ""), started.Load())
		}
		f.breaks("a", fault{})
		time.Sleep(time.Second)
		if d := take(t, g, check("a/1", "10/s")); d.Degraded {
			t.Errorf("got %+v once it is there, want exact", d)
		}
	})
}

func TestShardsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, shardedFake{f}, Options{})
		for i := range 5 * maxShards {
			take(t, g, check(fmt.Sprintf("shard%d/1", i), "10/s"))
		}
		if got := len(g.Shards()); got > maxShards+1 {
			t.Errorf("got %d shards, want %d at most", got, maxShards+1)
		}
	})
}

func TestShardThatVanishedIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		var vanished atomic.Int64
		g := newGuard(t, shardedFake{f}, Options{OnEvent: func(e Event) {
			if e.Kind == Vanished {
				vanished.Add(1)
			}
		}})
		take(t, g, check("b/1", "10/s"))
		goDown(t, g, f, "a")
		for range 120 { // still asked for
			time.Sleep(time.Second)
			take(t, g, check("a/1", "10/s"))
		}
		if got := len(g.Shards()); got != 2 {
			t.Fatalf("got %d shards, want 2", got)
		}
		time.Sleep(2 * time.Minute)
		if got := g.Shards(); len(got) != 1 || got[0].Name != "b" || vanished.Load() != 1 {
			t.Errorf("got %+v, %d vanished, want b only", got, vanished.Load())
		}
		calls := f.calls.Load()
		time.Sleep(time.Minute)
		if f.calls.Load() != calls {
			t.Error("a shard that vanished is still probed")
		}
	})
}

func TestCloseEndsProbesAndRefusesCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) { // which fails if a goroutine is left
		f := newFake(t, nil)
		g := newGuard(t, f, Options{})
		goDown(t, g, f, "a")
		f.breaks("a", fault{hangs: true})
		time.Sleep(80 * time.Millisecond)
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		if err := g.Close(); err != nil {
			t.Errorf("closed twice: got %v, want nil", err)
		}
		ctx, c := context.Background(), check("a/1", "10/s")
		_, take := g.Take(ctx, c)
		_, all := g.TakeAll(ctx, []headgate.Check{c}, nil)
		_, charge := g.Charge(ctx, c)
		for what, err := range map[string]error{
			"Take": take, "TakeAll": all, "Charge": charge,
			"Give": g.Give(ctx, c, headgate.Receipt{Units: 1}), "Reset": g.Reset(ctx, c),
		} {
			if !errors.Is(err, headgate.ErrClosed) {
				t.Errorf("%s: got %v, want %v", what, err, headgate.ErrClosed)
			}
		}
	})
}
