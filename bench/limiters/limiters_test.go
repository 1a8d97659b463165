package limiters

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/bench/harness"
	"go.uber.org/ratelimit"
)

// deciders are the contenders that say no.
func deciders() []Entry {
	return slices.DeleteFunc(Entries(), func(e Entry) bool { return e.Role == harness.Loop || e.Waits })
}

func TestEveryContenderAdmitsItsLimitAndThenDenies(t *testing.T) {
	q := Quotas["steady"]
	for _, e := range deciders() {
		t.Run(e.Name, func(t *testing.T) {
			c, err := e.Make(q, 16)
			if err != nil {
				t.Fatal(err)
			}
			for i := range q.Count {
				if !c.Allow("a") {
					t.Fatalf("request %d of %d was denied", i+1, q.Count)
				}
			}
			for range 3 {
				if c.Allow("a") {
					t.Fatalf("a request beyond %d was admitted", q.Count)
				}
			}
			if got, want := c.Allow("b"), !e.Single; got != want {
				t.Errorf("the first request of another key: admitted %v, want %v", got, want)
			}
		})
	}
}

func TestEveryContenderIsExactAmongGoroutines(t *testing.T) {
	q := Quotas["steady"]
	for _, e := range deciders() {
		t.Run(e.Name, func(t *testing.T) {
			c, err := e.Make(q, 16)
			if err != nil {
				t.Fatal(err)
			}
			var admitted atomic.Int64
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for range q.Count {
						if c.Allow("a") {
							admitted.Add(1)
						}
						runtime.Gosched()
					}
				})
			}
			all.Wait()
			// throttled gives up a decision that lost ten races, so it may admit fewer.
			if n := admitted.Load(); n > int64(q.Count) || n < int64(q.Count) && e.Name != "throttled" {
				t.Errorf("4 goroutines were admitted %d times, want %d", n, q.Count)
			}
		})
	}
}

func TestOpenQuotaIsNeverDenied(t *testing.T) {
	for _, e := range deciders() {
		t.Run(e.Name, func(t *testing.T) {
			c, err := e.Make(Quotas["open"], 16)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 300_000 {
				if !c.Allow("a") {
					t.Fatalf("request %d was denied", i+1)
				}
			}
		})
	}
}

// fakeClock adds up how long it was asked to sleep.
type fakeClock struct{ now time.Time }

func (c *fakeClock) Now() time.Time { return c.now }

func (c *fakeClock) Sleep(d time.Duration) { c.now = c.now.Add(d) }

func TestUberPaces(t *testing.T) {
	clock := &fakeClock{now: time.Unix(1e9, 0)}
	start := clock.now
	u := uberLimiter{ratelimit.New(100, ratelimit.WithClock(clock), ratelimit.WithoutSlack)}
	for range 101 {
		u.Allow("a")
	}
	if got := clock.now.Sub(start); got != time.Second {
		t.Errorf("101 requests at 100 a second were spread over %v, want 1s", got)
	}
}

// A contender without keepsKeys gets all keys in one buffer. If it kept them after all, it would mix them up.
func TestContendersWithoutKeepsKeysKeepNone(t *testing.T) {
	const keys = 1000
	q := Quotas["steady"]
	for _, e := range deciders() {
		if e.Single {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			c, err := e.Make(q, keys)
			if err != nil {
				t.Fatal(err)
			}
			for i := range q.Count + 1 {
				admitted := 0
				harness.EachKey(keys, e.KeepsKeys, func(key string) {
					if c.Allow(key) {
						admitted++
					}
				})
				want := keys
				if i == q.Count {
					want = 0
				}
				if admitted != want {
					t.Fatalf("request %d of each key: admitted %d of %d, want %d", i+1, admitted, keys, want)
				}
			}
		})
	}
}

func TestCountedTablesCount(t *testing.T) {
	const keys = 5000
	for _, e := range deciders() {
		c, err := e.Make(Quotas["steady"], keys)
		if err != nil {
			t.Fatal(err)
		}
		table, ok := c.(Counted)
		if !ok {
			continue
		}
		harness.EachKey(keys, e.KeepsKeys, func(key string) { c.Allow(key) })
		if got := table.Table(); got.Keys != keys || got.Lost != 0 || got.Bytes < 16*keys {
			t.Errorf("%s with %d keys says %+v", e.Name, keys, got)
		}
	}
}

func TestHotPathsOfOursAndTheFloorAllocateNothing(t *testing.T) {
	for _, name := range []string{"headgate", "floor", "floor-single"} {
		e, err := EntryNamed(Entries(), name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := e.Make(Quotas["steady"], 16)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(1000, func() { c.Allow("a") }); n != 0 {
			t.Errorf("%s allocates %v times a decision", name, n)
		}
	}
}

func BenchmarkOneKey(b *testing.B) {
	for _, e := range Entries() {
		if e.Waits {
			continue
		}
		b.Run(e.Name, func(b *testing.B) {
			c, err := e.Make(Quotas["open"], 16)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				c.Allow("user:0123456789a")
			}
		})
	}
}
