package lease

import (
	"context"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/internal/stepstore"
)

// holdForLong gives a lease units of a key that last for the whole test, so that only the way of a hit is seen.
func holdForLong(l *Limiter, c *headgate.Check) {
	h := l.insert(context.Background(), l.table.hash(c.Key), c)
	far := l.clock.Elapsed() + time.Hour
	g := &grant{size: 1 << 40, expires: far, renewAt: far, lowWater: -1}
	g.left.Store(g.size)
	h.grants = append(h.grants, g)
	h.front.Store(g)
}

func TestADecisionFromALeaseAllocatesNothing(t *testing.T) {
	racing.Skip(t, "the race detector allocates")
	l := newTestLease(t, newLeaseWire(stepstore.New(time.Now)), Options{})
	c := headgate.Check{Key: "a", Limit: headgate.PerSecond(1000), Cost: 1}
	holdForLong(l, &c)
	ctx := context.Background()
	if n := testing.AllocsPerRun(1000, func() {
		if d, err := l.Take(ctx, c); err != nil || !d.Allowed {
			t.Fatalf("got %+v, %v, want it allowed", d, err)
		}
	}); n != 0 {
		t.Errorf("Take: %g allocations, want none", n)
	}
	checks, dst := []headgate.Check{c}, make([]headgate.Decision, 0, 1)
	if n := testing.AllocsPerRun(1000, func() {
		if ds, err := l.TakeAll(ctx, checks, dst); err != nil || !ds[0].Allowed {
			t.Fatalf("got %+v, %v, want it allowed", ds, err)
		}
	}); n != 0 {
		t.Errorf("TakeAll: %g allocations, want none", n)
	}
	denied := headgate.Check{Key: "denied", Limit: headgate.PerSecond(1000), Cost: 1}
	h := l.insert(t.Context(), l.table.hash(denied.Key), &denied)
	far := l.clock.Elapsed() + time.Hour
	h.denial.Store(&denial{cost: 1, until: far, retryAt: far})
	if n := testing.AllocsPerRun(1000, func() {
		if d, err := l.Take(ctx, denied); err != nil || d.Allowed {
			t.Fatalf("got %+v, %v, want it denied", d, err)
		}
	}); n != 0 {
		t.Errorf("a denial: %g allocations, want none", n)
	}
}

// A caller may use the memory of a key again when Take has returned.
func TestALeaseBorrowsKeys(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, l *Limiter, w *leaseWire) {
		buffer := []byte("alice")
		limit := headgate.PerHour(100)
		for range 10 {
			copy(buffer, "alice")
			mustLease(t, l, headgate.Check{Key: unsafe.String(&buffer[0], len(buffer)), Limit: limit, Cost: 1})
			copy(buffer, "mallo")
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := remaining(t, w, headgate.Check{Key: "alice", Limit: limit}); got != 90 {
			t.Errorf("the store has %d left for alice, want 90", got)
		}
	})
}

func BenchmarkLease(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprint(keys, "keys"), func(b *testing.B) {
			l := newTestLease(b, newLeaseWire(stepstore.New(time.Now)), Options{})
			checks := make([]headgate.Check, keys)
			for i := range checks {
				checks[i] = headgate.Check{Key: fmt.Sprint("key", i), Limit: headgate.PerSecond(1000), Cost: 1}
				holdForLong(l, &checks[i])
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				ctx := context.Background()
				for i := 0; pb.Next(); i++ {
					if d, err := l.Take(ctx, checks[i%keys]); err != nil || !d.Allowed {
						b.Errorf("got %+v, %v", d, err)
					}
				}
			})
		})
	}
}
