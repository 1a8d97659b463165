package guard

import (
	"context"
	"errors"
	"fmt"
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

func TestStoreMayBeUnreachableFromTheBeginning(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.breaks("a", fault{hangs: true})
		var started atomic.Bool
		g := newGuard(t, f, Options{OnEvent: func(e Event) {
			if e.Kind == Opened {
				started.Store(e.NeverResponded)
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

func TestCircuitOpensOnce(t *testing.T) {
	c := newCircuit(clock.System)
	now := time.Now()
	if !c.tryOpen(c.generation.Load(), now, now) {
		t.Error("a closed circuit did not open")
	}
	if c.tryOpen(c.generation.Load(), now, now) { // by a call that began while the circuit opened
		t.Error("an open circuit opened again")
	}
	c.close(now)
	if !c.tryOpen(c.generation.Load(), now, now) {
		t.Error("a circuit that was closed again did not open")
	}
}
