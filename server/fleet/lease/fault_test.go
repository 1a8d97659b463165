package lease

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

func TestAHolderThatWasStoppedUsesNothingThatIsStale(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		c := headgate.Check{Key: "a", Limit: headgate.PerSecond(100), Cost: 1}
		warm(t, l, c)
		if l.table.find(l.table.hash("a"), "a", &c.Limit).held(l.clock.Elapsed()) == 0 {
			t.Fatal("nothing is held, and the test shows nothing")
		}
		w.sever(true)
		time.Sleep(DefaultTTL - time.Microsecond)
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
	inBubble(t, Options{TTL: 20 * time.Millisecond}, func(t *testing.T, l *Limiter, w *leaseWire) {
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
		if got := remaining(t, w, c); got != 80 {
			t.Errorf("the store has %d left, want 80: what came too late was handed back", got)
		}
	})
}

func TestOneWhoStopsWaitingTakesNothing(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
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
	inBubble(t, Options{MaxWaiting: 10}, func(t *testing.T, l *Limiter, w *leaseWire) {
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
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
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
		time.Sleep(2 * defaultCallInterval)
		if d := mustLease(t, l, c); !d.Allowed {
			t.Errorf("when it is back: got %+v, want it allowed", d)
		}
	})
}

func TestALeaseOfAFullTableAsksForEveryCheck(t *testing.T) {
	inBubble(t, Options{MaxKeys: 4}, func(t *testing.T, l *Limiter, w *leaseWire) {
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
		f := newVirtualFleet(t, nodes, roundTrip(time.Millisecond), Options{})
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

// A store whose clock jumps ahead refills its buckets, as it would for exact checks; one that jumps back lets no time
// pass. Leases go by the node's clock, and add nothing to that.
func TestTheStoresClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{-time.Hour, -time.Second, time.Second, time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const lasting = 5 * time.Second
				var offset atomic.Int64
				store := stepstore.New(func() time.Time { return time.Now().Add(time.Duration(offset.Load())) })
				f := &virtualFleet{t: t, store: store, began: time.Now()}
				for range 3 {
					f.add(roundTrip(time.Millisecond), Options{Members: fixedMembers(3)})
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
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
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
