package algorithm_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

func mustPlan(t testing.TB, text string) *algorithm.Plan {
	t.Helper()
	p, err := algorithm.NewPlan(headgate.MustParseLimit(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// At all borders, since plans of most limits are made without asking Validate.
func TestNewPlanRefusesWhatLimitRefuses(t *testing.T) {
	numbers := []int64{-1, 0, 1, 2, 1000, 1<<20 - 1, 1 << 20, 1<<20 + 1, headgate.MaxCount, headgate.MaxCount + 1, math.MaxInt64, math.MinInt64}
	periods := []time.Duration{-1000, 0, 1, 1000, 1500, time.Second, time.Hour, 24 * time.Hour, 24*time.Hour + 1000, headgate.MaxPeriod, math.MaxInt64}
	seen := map[bool]int{}
	for n := range 8 * (len(algorithms()) + 1) * len(numbers) * len(numbers) * len(periods) {
		rest := n % 8
		l := headgate.Limit{Buckets: rest & 1, TTL: time.Duration(rest>>1&1) * time.Second, Staggered: rest>>2 != 0}
		n /= 8
		l.Algorithm = headgate.Algorithm(n % (len(algorithms()) + 1))
		n /= len(algorithms()) + 1
		l.Count = numbers[n%len(numbers)]
		n /= len(numbers)
		l.Burst = numbers[n%len(numbers)]
		l.Period = periods[n/len(numbers)]
		want := l.Validate()
		_, err := algorithm.NewPlan(l)
		if (err == nil) != (want == nil) || err != nil && !errors.Is(err, headgate.ErrInvalidLimit) {
			t.Errorf("%+v: got error %v, want %v", l, err, want)
		}
		seen[err == nil]++
	}
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("%d limits are valid and %d are not, want some of each", seen[true], seen[false])
	}
}

// TestDecideIsTakeThatTakesNothing compares what Decide says with what Take then does.
func TestDecideIsTakeThatTakesNothing(t *testing.T) {
	for _, a := range algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			from := &chance{Rand: rand.New(rand.NewPCG(seed, uint64(a)))}
			for range 200 {
				h, err := newHistory(from, drawLimit(from, a))
				if err != nil {
					t.Fatal(err)
				}
				for range historySteps {
					h.now += h.pause()
					n := h.cost()
					before := slices.Clone(h.state)
					want := h.plan.Decide(h.state, h.now, n)
					if !slices.Equal(h.state, before) {
						t.Fatalf("%s: Decide changed %v to %v", h.limit, before, h.state)
					}
					var got headgate.Decision
					h.state, got = h.plan.Take(h.state, h.now, n, 1)
					if a == headgate.Concurrency {
						got.Receipt = headgate.Receipt{} // a lease exists only after a take
					}
					if got != want {
						t.Fatalf("%s: cost %d: Take %+v, Decide %+v", h.limit, n, got, want)
					}
				}
			}
		})
	}
}

// TestPairsAreStates runs the same history on a Pair and on a State.
func TestPairsAreStates(t *testing.T) {
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket, headgate.FixedWindow} {
		t.Run(a.String(), func(t *testing.T) {
			from := &chance{Rand: rand.New(rand.NewPCG(seed, uint64(a)))}
			for range 500 {
				h, err := newHistory(from, drawLimit(from, a))
				if err != nil {
					t.Fatal(err)
				}
				if !h.plan.IsPair() {
					t.Fatalf("%s: not a pair", h.limit)
				}
				var pair algorithm.Pair
				for range historySteps {
					var got headgate.Decision
					pair, got = stepBoth(t, h, pair)
					if want := h.plan.StateOf(pair, nil); len(h.state) > 0 && (!slices.Equal(h.state, want) || algorithm.PairOf(h.state) != pair) {
						t.Fatalf("%s: got state %v, pair %v", h, h.state, pair)
					}
					if dead := pair.Time + h.plan.Life(pair.Units); dead >= h.now {
						if d := h.plan.DecidePair(pair, dead, 0); d.ResetAfter != 0 || d.Remaining != d.Limit {
							t.Fatalf("%s: after its life: %+v", h, d)
						}
					}
					_ = got
				}
			}
		})
	}
}

// stepBoth takes, charges or gives with the State of a history and with a Pair, and compares.
func stepBoth(t *testing.T, h *history, pair algorithm.Pair) (algorithm.Pair, headgate.Decision) {
	t.Helper()
	h.now += h.pause()
	n := h.cost()
	var got, want headgate.Decision
	switch h.from.upTo(5) {
	case 0:
		n = min(n, headgate.MaxCount)
		h.state, want, _ = h.plan.Charge(h.state, h.now, n)
		pair, got = h.plan.ChargePair(pair, h.now, n)
	case 1:
		if len(h.open) == 0 {
			return pair, got
		}
		r := h.open[len(h.open)-1]
		h.open = h.open[:len(h.open)-1]
		h.state = h.plan.Give(h.state, h.now, r.Units, r)
		pair = h.plan.GivePair(h.plan, pair, h.now, r.Units, r)
		return pair, got
	default:
		h.state, want = h.plan.Take(h.state, h.now, n, 0)
		if n > h.plan.Capacity() {
			got = h.plan.DecidePair(pair, h.now, n)
			break
		}
		after, ok := h.plan.TakePair(pair, h.now, n)
		if !ok {
			got = h.plan.DecidePair(pair, h.now, n)
			if after.Last != pair.Last {
				pair = after
			}
			break
		}
		pair = after
		got = h.plan.DescribeTaken(pair, h.now, n)
	}
	h.keep(got)
	if got != want {
		t.Fatalf("%s at %d, %d units:\npair  %+v\nstate %+v", h.limit, h.now, n, got, want)
	}
	return pair, got
}

// TestWords tells how much room a store needs for a new key.
func TestWords(t *testing.T) {
	for _, a := range algorithms() {
		from := &chance{Rand: rand.New(rand.NewPCG(seed, uint64(a)))}
		for range 20 {
			h, err := newHistory(from, drawLimit(from, a))
			if err != nil {
				t.Fatal(err)
			}
			if state, _ := h.plan.Take(nil, h.now, 1, 1); len(state) != h.plan.Words() {
				t.Errorf("%s: %d words, Words says %d", h.limit, len(state), h.plan.Words())
			}
		}
	}
}

func TestOffsetsSpreadOverThePeriod(t *testing.T) {
	p := mustPlan(t, "100/h fixed-window staggered")
	var tenths [10]int
	for i := range 10000 {
		key := fmt.Sprint("client-", i)
		offset := p.Offset(key)
		if offset < 0 || offset >= time.Hour.Microseconds() || offset != p.Offset(key) {
			t.Fatalf("key %s: offset %d", key, offset)
		}
		tenths[offset*10/time.Hour.Microseconds()]++
	}
	for i, n := range tenths {
		if n < 850 || n > 1150 { // five standard deviations
			t.Errorf("%d of 10000 keys in tenth %d of the period, want about 1000", n, i)
		}
	}
	if got := mustPlan(t, "100/h fixed-window").Offset("alice"); got != 0 {
		t.Errorf("aligned window: offset %d, want 0", got)
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	for _, a := range algorithms() {
		text := "10/s " + a.String()
		if a == headgate.Concurrency {
			text = "10 concurrent ttl 1s"
		}
		p := mustPlan(t, text)
		state := make(algorithm.State, 0, 200)
		now := int64(start)
		if got := testing.AllocsPerRun(1000, func() {
			now += 50_000
			state, _ = p.Take(state, now, 1, uint64(now))
			p.Decide(state, now, 3)
		}); got != 0 {
			t.Errorf("%s: %v allocations a step, want none", text, got)
		}
	}
}
