package memstore

import (
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
)

// A shuffledClock runs ahead by a little with every reading, and hands its readings out of order: some come late by up
// to 100 ms, and now and then one is hours behind or ahead of its time.
type shuffledClock struct {
	jumps  uint32 // of so many readings, a power of two, one jumps ahead and stays there
	micros atomic.Int64
	latest atomic.Int64 // the latest reading handed out
}

// newShuffledClock returns a clock that jumps ahead now and then, more often if there are but few readings.
func newShuffledClock() *shuffledClock {
	if soaking() {
		return &shuffledClock{jumps: 1 << 22}
	}
	return &shuffledClock{jumps: 1 << 14}
}

// soaking reports whether the long tests are to be long.
func soaking() bool { return os.Getenv("HEADGATE_SOAK") != "" }

func (c *shuffledClock) Now() time.Time {
	t := c.micros.Add(1)
	switch r := rand.Uint32(); {
	case r&(c.jumps-1) == 0:
		t = c.micros.Add(int64(time.Minute / time.Microsecond))
	case r&0x3FF == 0:
		t -= rand.Int64N(3 * time.Hour.Microseconds())
	case r&1 == 0:
		t -= rand.Int64N(100_000)
	}
	t = max(t, 0) // the time that counts begins here
	for latest := c.latest.Load(); t > latest && !c.latest.CompareAndSwap(latest, t); latest = c.latest.Load() {
	}
	return epoch.Add(time.Duration(t) * time.Microsecond)
}

// Whatever the interleaving and the clock, nobody gets more than burst + rate·t. With HEADGATE_SOAK=1 it is 10⁹
// decisions, else 10⁷.
func TestSoakNeverMoreThanBurstPlusRate(t *testing.T) {
	const keys, goroutines = 5_000, 1_000
	decisions := 10_000_000 / racing.Slower
	if testing.Short() {
		decisions /= 10
	}
	if soaking() {
		decisions = 1_000_000_000
	}
	limits := []string{"100/s burst 50", "300/s", "7/s gcra burst 3", "20/s leaky-bucket", "1000000/m"}
	type counter struct{ admitted [5]atomic.Int64 }
	clock := &shuffledClock{jumps: 1 << 22}
	s := newStore(t, Options{Now: clock.Now})
	bounds := make([]*headgate.Bound, len(limits))
	for i, l := range limits {
		bounds[i] = bind(t, s, l)
	}
	counters := make([]counter, keys)
	names := make([][]string, len(limits))
	for l := range limits {
		for k := range keys {
			names[l] = append(names[l], limits[l]+"/"+key(k))
		}
	}
	// check compares what was admitted so far with what the clock has allowed since. It reads the clock last, so that it
	// never blames what was admitted meanwhile.
	var over atomic.Int64
	check := func(k int) {
		for l, b := range bounds {
			got := counters[k].admitted[l].Load()
			elapsed := clock.latest.Load()
			limit := b.Limit()
			most := limit.Capacity() + elapsed*limit.Count/limit.Period.Microseconds()
			if got > most && over.Add(1) < 10 {
				t.Errorf("%s: admitted %d in %d µs, want at most %d", names[l][k], got, elapsed, most)
			}
		}
	}
	var done, denied atomic.Int64
	start := time.Now()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 3))
			zipf := rand.NewZipf(r, 1.1, 1, keys-1)
			const batch = 10_000
			for done.Add(batch) <= int64(decisions) {
				var refused int64
				for i := range batch {
					k, l := int(zipf.Uint64()), i%len(limits)
					if bounds[l].Allow(names[l][k]) {
						counters[k].admitted[l].Add(1)
					} else {
						refused++
					}
				}
				denied.Add(refused)
				check(r.IntN(keys))
				check(0)
				if g == 0 && soaking() {
					t.Logf("%d decisions in %s", done.Load(), time.Since(start).Round(time.Second))
				}
			}
		})
	}
	wg.Wait()
	for k := range keys {
		check(k)
	}
	t.Logf("%d decisions, %d denied, %d above burst + rate·t, in %s", decisions, denied.Load(), over.Load(), time.Since(start).Round(time.Second))
	if denied.Load() == 0 {
		t.Error("nothing was denied: the test puts no pressure on the limits")
	}
	if got := s.Stats(); got.Evictions != 0 || got.Refusals != 0 {
		t.Errorf("%+v, want no evictions and no refusals", got)
	}
}
