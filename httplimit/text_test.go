package httplimit

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

// TestMoreOfAQuickBucketIsThereWithinASecond takes by chance from buckets of many rates: what is spared to find out
// must be what would have been found.
func TestMoreOfAQuickBucketIsThereWithinASecond(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	clock := limittest.NewClock() // which the store reads at times of its own
	store, err := memstore.New(memstore.Options{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	quick := 0
	for range 400 {
		l := headgate.Limit{
			Algorithm: [...]headgate.Algorithm{headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket}[random.IntN(3)],
			Count:     1 + random.Int64N(1<<random.IntN(20)),
			Period:    time.Duration(1+random.Int64N(1<<(1+random.IntN(33)))) * time.Microsecond,
		}
		if random.IntN(2) == 0 {
			l.Burst = 1 + random.Int64N(1000)
		}
		if l.Validate() != nil {
			continue
		}
		key := l.String()
		for range 50 {
			clock.Advance(time.Duration(random.Int64N(int64(l.Period)/l.Count+2)) * time.Duration(random.IntN(3)) / 2)
			d, err := store.Take(context.Background(), headgate.Check{Key: key, Limit: l, Cost: 1 + random.Int64N(3)})
			if err != nil {
				t.Fatalf("%s: %v", key, err)
			}
			if !isQuick(&l) || !isFilling(&d) {
				continue
			}
			quick++
			if until, known := untilMore(&l, &d); wholeSeconds(until) != 1 || !known {
				t.Fatalf("%s, %+v: it takes %s, %t, want more than nothing and at most 1s", key, d, until, known)
			}
		}
	}
	if quick < 1000 {
		t.Errorf("of the buckets %d were quick and filling, want more than 1000", quick)
	}
}
