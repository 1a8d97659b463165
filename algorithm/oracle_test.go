package algorithm_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/racing"
)

const seed = 20260101

// histories is how many histories of historySteps each test draws of an algorithm: 200,000 steps, or a tenth of that
// with the race detector, which finds nothing in pure steps, and with -short.
func histories() int {
	if racing.Enabled || testing.Short() {
		return 500
	}
	return 5000
}

const historySteps = 40

// algorithms lists all of them.
func algorithms() []headgate.Algorithm {
	return headgate.Algorithms()
}

// drawLimit chooses a valid limit of an algorithm: plain, awkward, or at the edge of the domain.
func drawLimit(from source, a headgate.Algorithm) headgate.Limit {
	l := headgate.Limit{Algorithm: a}
	l.Count = oneOf[int64](from, 1, 2, 3, 7, 10, 20, 100, 300, 1000, 999983, 1<<20, headgate.MaxCount-1, headgate.MaxCount)
	if a == headgate.SlidingLog || a == headgate.Concurrency {
		l.Count = oneOf[int64](from, 1, 2, 3, 7, 10, 20, 100, headgate.MaxLogCount)
	}
	if a == headgate.Concurrency {
		l.TTL = oneOf(from, 0, time.Microsecond, time.Second, time.Minute, headgate.MaxPeriod)
		return l
	}
	l.Period = oneOf(from, time.Microsecond, 7*time.Microsecond, time.Millisecond, time.Second, 999983*time.Microsecond,
		11*time.Second, time.Minute, time.Hour, 24*time.Hour, 30*24*time.Hour, headgate.MaxPeriod)
	switch a {
	case headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket:
		l.Burst = oneOf(from, 0, 1, 3, l.Count/2+1, 2*l.Count, headgate.MaxCount)
		if l.Validate() != nil { // refills too slowly
			l.Burst = 0
		}
	case headgate.SlidingBuckets:
		l.Buckets = oneOf(from, 0, 2, 3, 7, 60, 1000)
		if l.Validate() != nil { // does not divide the period
			l.Period *= 60
			l.Buckets = oneOf(from, 2, 3, 60)
		}
		l.Period = min(l.Period, 360*24*time.Hour)
	}
	return l
}

func TestStepsAgreeWithOracle(t *testing.T) {
	for _, a := range algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			t.Logf("seed %d", seed)
			from := &chance{Rand: rand.New(rand.NewPCG(seed, uint64(a)))}
			denied := 0
			for range histories() {
				l := drawLimit(from, a)
				from.steps = historySteps
				denied += agree(t, from, l)
			}
			steps := histories() * historySteps
			if t.Logf("%d steps, %d denied", steps, denied); denied < steps/10 {
				t.Errorf("%d of %d steps denied: too few to prove anything", denied, steps)
			}
		})
	}
}

func TestClockThatGoesBackAddsNothing(t *testing.T) {
	for _, a := range algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			t.Logf("seed %d", seed)
			from := &chance{Rand: rand.New(rand.NewPCG(seed, uint64(a)))}
			for range histories() {
				h, err := newHistory(from, drawLimit(from, a))
				if err != nil {
					t.Fatal(err)
				}
				for range historySteps {
					if err := h.stepBack(); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// TestGCRAIsTokenBucket gives both the same history, with a clock that goes back too.
func TestGCRAIsTokenBucket(t *testing.T) {
	t.Logf("seed %d", seed)
	from := &chance{Rand: rand.New(rand.NewPCG(seed, 0))}
	for range histories() {
		l := drawLimit(from, headgate.TokenBucket)
		h, err := newHistory(from, l)
		if err != nil {
			t.Fatal(err)
		}
		l.Algorithm = headgate.GCRA
		gcra, err := algorithm.NewPlan(l)
		if err != nil {
			t.Fatal(err)
		}
		var a, b algorithm.State
		for range historySteps {
			if h.now += h.pause(); from.upTo(9) == 0 {
				h.now -= h.pause()
			}
			n := h.cost()
			var da, db headgate.Decision
			if from.upTo(9) == 0 {
				n = min(n, headgate.MaxCount)
				a, da, _ = h.plan.Charge(a, h.now, n)
				b, db, _ = gcra.Charge(b, h.now, n)
			} else {
				a, da = h.plan.Take(a, h.now, n, 0)
				b, db = gcra.Take(b, h.now, n, 0)
			}
			if da != db {
				t.Fatalf("%s at %d, cost %d:\ntoken-bucket %+v\ngcra         %+v", h.limit, h.now, n, da, db)
			}
		}
	}
}

// TestTimesNear1970 runs histories from the first moments of 1970, where virtual clocks and boards without a battery
// begin, and from before, as far as an algorithm has no state from which time counts.
func TestTimesNear1970(t *testing.T) {
	for _, a := range algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			from := &chance{Rand: rand.New(rand.NewPCG(seed, uint64(a)))}
			for i := range 200 {
				h, err := newHistory(from, drawLimit(from, a))
				if err != nil {
					t.Fatal(err)
				}
				h.now = from.upTo(2)
				if i%2 == 0 && (a == headgate.SlidingBuckets || a == headgate.SlidingLog || a == headgate.Concurrency) {
					h.now -= from.upTo(10 * h.span())
				}
				for range historySteps {
					if err := h.step(); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}
