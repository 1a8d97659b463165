package limittest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// concurrentTests check that concurrent callers together get as many units as a single caller would.
func concurrentTests() []suiteTest {
	small := parseLimits("100/s", "7/s burst 50 gcra", "300/m leaky-bucket", "100/h fixed-window",
		"100/h fixed-window staggered",
		"100/m sliding-log", "100/m sliding-window", "100/m sliding-buckets", "100 concurrent")
	small = slices.Concat(small, limitsOfEach(declaresPromise, "100/h"))
	buckets := parseLimits("300/s burst 40", "7/s gcra burst 30", "10/s leaky-bucket")
	return slices.Concat(
		forEach("concurrent", "takes all units", small, func(tr *trial, l headgate.Limit) { tr.takeAllUnits(l) }),
		forEach("concurrent", "takes refilled units", buckets, (*trial).takeRefills),
		forEach("concurrent", "while the clock jumps", buckets, (*trial).takeWithRandomClock),
		forEach("concurrent", "takes and gives", small, (*trial).takeAndGive),
		[]suiteTest{{"concurrent", "takes several at once", (*trial).takeSeveralKeys}})
}

// concurrently runs do in many goroutines that start at once, each with its own random source, and fails the test with
// the first error.
func (tr *trial) concurrently(do func(rng *rand.Rand) error) {
	tr.Helper()
	var ready, done sync.WaitGroup
	var failed atomic.Pointer[error]
	start := make(chan struct{})
	ready.Add(tr.Goroutines)
	for i := range tr.Goroutines {
		done.Go(func() {
			rng := rand.New(rand.NewPCG(tr.Seed, uint64(i)))
			ready.Done()
			<-start
			if err := do(rng); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	if err := failed.Load(); err != nil {
		tr.Fatal(*err)
	}
}

// takeAllUnits lets all goroutines take as many units of one key as they can, and returns the number of units
// taken.
func (tr *trial) takeAllUnits(l headgate.Limit) int64 {
	tr.Helper()
	before := tr.peek("alice", l).Remaining
	var taken atomic.Int64
	tries := max(2, 2*int(l.Capacity())/tr.Goroutines)
	tr.concurrently(func(*rand.Rand) error {
		for range tries {
			d, err := tr.limiter.Take(context.Background(), headgate.Check{Key: "alice", Limit: l, Cost: 1})
			if err != nil {
				return err
			}
			if d.Allowed {
				taken.Add(1)
			}
		}
		return nil
	})
	if got := taken.Load(); got != before {
		tr.Fatalf("%s: %d goroutines took %d units of %d remaining", l, tr.Goroutines, got, before)
	}
	return before
}

// takeRefills lets all goroutines take the units that are restored after a few random times. They must get
// exactly these units.
func (tr *trial) takeRefills(l headgate.Limit) {
	taken := tr.takeAllUnits(l)
	for range 5 {
		tr.Advance(randomDuration(tr.rng, l.Period*time.Duration(l.Capacity())/time.Duration(2*l.Count)))
		taken += tr.takeAllUnits(l)
		elapsed := tr.elapsed().Microseconds()
		if want := l.Capacity() + l.Count*elapsed/l.Period.Microseconds(); taken != want {
			tr.Fatalf("%s: %d units taken in %dµs, want %d", l, taken, elapsed, want)
		}
	}
}

// takeWithRandomClock lets all goroutines set the clock forward and back between takes.
func (tr *trial) takeWithRandomClock(l headgate.Limit) {
	const span, takes = 10 * time.Second, 5
	var taken atomic.Int64
	tr.concurrently(func(rng *rand.Rand) error {
		for range takes {
			tr.setElapsed(randomDuration(rng, span))
			d, err := tr.limiter.Take(context.Background(), headgate.Check{Key: "alice", Limit: l, Cost: 1})
			if err != nil {
				return err
			}
			if d.Allowed {
				taken.Add(1)
			}
		}
		return nil
	})
	minUnits := min(l.Capacity(), int64(takes*tr.Goroutines))
	maxUnits := l.Capacity() + l.Count*span.Microseconds()/l.Period.Microseconds()
	if got := taken.Load(); got < minUnits || got > maxUnits {
		tr.Fatalf("%s: %d units taken in %v, want %d to %d", l, got, span, minUnits, maxUnits)
	}
}

// takeAndGive lets all goroutines take and refund while the clock stands still. In the end nothing is consumed.
func (tr *trial) takeAndGive(l headgate.Limit) {
	var held atomic.Int64
	tr.concurrently(func(rng *rand.Rand) error {
		c := headgate.Check{Key: "alice", Limit: l}
		for range 4 {
			c.Cost = 1 + rng.Int64N(5)
			d, err := tr.limiter.Take(context.Background(), c)
			if err != nil {
				return err
			}
			if !d.Allowed {
				continue
			}
			if now := held.Add(c.Cost); now > l.Capacity() {
				return fmt.Errorf("%s: %d units held at once", l, now)
			}
			if c.Cost = rng.Int64N(c.Cost + 1); c.Cost == 0 {
				continue
			}
			held.Add(-c.Cost) // before the refund, because another goroutine may take the units right after it
			if err := tr.limiter.Give(context.Background(), c, d.Receipt); err != nil {
				return err
			}
		}
		return nil
	})
	if got, want := tr.peek("alice", l).Remaining, l.Capacity()-held.Load(); got != want {
		tr.Fatalf("%s: %d remaining after %d were kept, want %d", l, got, held.Load(), want)
	}
}

// takeSeveralKeys lets all goroutines take from several keys by TakeAll, in random order. In the end, each key must
// have lost exactly the admitted units.
func (tr *trial) takeSeveralKeys() {
	limits := parseLimits("1000/d", "500/d gcra", "300/d fixed-window", "200/d sliding-log", "700/d sliding-window",
		"150/d sliding-buckets", "400/d leaky-bucket", "100 concurrent", "600/d fixed-window staggered", "350/d")
	limits = slices.Concat(limits, limitsOfEach(declaresPromise, "250/d"))
	taken := make([]atomic.Int64, len(limits))
	key := func(i int) string { return fmt.Sprint("key", i) }
	tr.concurrently(func(rng *rand.Rand) error {
		for range 3 {
			order := rng.Perm(len(limits))[:1+rng.IntN(4)]
			checks := make([]headgate.Check, len(order))
			for j, i := range order {
				checks[j] = headgate.Check{Key: key(i), Limit: limits[i], Cost: 1 + rng.Int64N(3)}
			}
			ds, err := tr.limiter.TakeAll(context.Background(), checks, nil)
			if err != nil {
				return err
			}
			if !headgate.Allowed(ds) {
				continue
			}
			for j, i := range order {
				taken[i].Add(checks[j].Cost)
			}
		}
		return nil
	})
	for i, l := range limits {
		if got, want := tr.peek(key(i), l).Remaining, l.Capacity()-taken[i].Load(); got != want {
			tr.Errorf("%s: %d remaining after %d were taken, want %d", l, got, taken[i].Load(), want)
		}
	}
}
