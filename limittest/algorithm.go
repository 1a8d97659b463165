package limittest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// RunAlgorithm checks that a custom algorithm keeps the promises of algorithm.Custom in random histories under each
// limit. The field Algorithm of the limits may be empty. Without limits, RunAlgorithm uses a few typical ones.
func RunAlgorithm(t *testing.T, custom algorithm.Custom, limits ...headgate.Limit) {
	t.Helper()
	if len(limits) == 0 {
		limits = []headgate.Limit{
			headgate.PerSecond(1), headgate.PerMinute(10), headgate.MustParseLimit("7/3s burst 20"), headgate.PerDay(100_000),
		}
	}
	for i, l := range limits {
		if l.Algorithm < headgate.FirstCustom {
			l.Algorithm = headgate.FirstCustom
		}
		t.Run(l.String(), func(t *testing.T) {
			h := customHistory{custom: custom, limit: l, rng: rand.New(rand.NewPCG(1, uint64(i)))}
			var plan algorithm.Plan
			if err := plan.SetCustom(l, custom); err != nil {
				t.Fatal(err)
			}
			for range 50 {
				if err := h.run(&plan); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A customHistory is a random history of one key under a custom algorithm.
type customHistory struct {
	custom  algorithm.Custom
	limit   headgate.Limit
	rng     *rand.Rand
	numbers algorithm.Numbers
	now     int64
	taken   []takenUnits // units that were not given back
}

// takenUnits are units that were taken by one Take. They have expired if Used was 0 at some later time.
type takenUnits struct {
	at, units int64
	expired   bool
}

func (h *customHistory) used(at int64) int64 { return h.custom.Used(h.limit, h.numbers, at) }

// random returns a random number from 0 to n.
func (h *customHistory) random(n int64) int64 { return h.rng.Int64N(n + 1) }

// run makes a new history of random steps, and checks that Used decreases between them.
func (h *customHistory) run(plan *algorithm.Plan) error {
	h.numbers, h.taken, h.now = algorithm.Numbers{}, nil, Start.UnixMicro()
	if used := h.used(h.now); used != 0 {
		return fmt.Errorf("Used of zero Numbers: got %d, want 0", used)
	}
	period := h.limit.Period.Microseconds()
	for range 40 {
		before := h.used(h.now)
		if h.random(3) == 0 { // make several steps at one time
			h.now += h.random(2 * period)
		}
		if used := h.used(h.now); used > before || used < 0 {
			return fmt.Errorf("%v: Used changed from %d to %d while nothing was taken, want 0 to %d", h, before, used, before)
		} else if used == 0 && before > 0 {
			h.expire()
		}
		if err := h.step(); err != nil {
			return err
		}
	}
	if used := h.used(h.now + algorithm.MaxFade); used != 0 {
		return fmt.Errorf("%v: Used is %d after %v, want 0", h, used, micros(algorithm.MaxFade))
	}
	return h.retry(plan)
}

// expire marks all units taken so far as expired.
func (h *customHistory) expire() {
	for i := range h.taken {
		h.taken[i].expired = true
	}
}

// step takes units within the limit, charges them beyond it, or gives some back.
func (h *customHistory) step() error {
	if len(h.taken) > 0 && h.random(3) == 0 {
		return h.give(h.rng.IntN(len(h.taken)))
	}
	before, capacity := h.used(h.now), h.limit.Capacity()
	n := 1 + h.random(capacity-1)
	overLimit, overDebt := before+n > capacity, before+n > capacity*(1+headgate.MaxDebt)
	if overDebt || overLimit && h.random(3) > 0 { // charges may exceed the limit, but not the largest debt
		return nil
	}
	h.numbers = h.custom.Take(h.limit, h.numbers, h.now, n)
	if used := h.used(h.now); used != before+n {
		return fmt.Errorf("%v: Take of %d units: Used changed from %d to %d, want %d", h, n, before, used, before+n)
	}
	given := h.custom.Give(h.limit, h.numbers, h.now, n, h.now)
	if used := h.custom.Used(h.limit, given, h.now); used != before {
		return fmt.Errorf("%v: Give of the %d units taken at the same time: Used changed from %d to %d, want %d",
			h, n, before+n, used, before)
	}
	h.taken = append(h.taken, takenUnits{at: h.now, units: n})
	return nil
}

// give gives back the units of h.taken[i].
func (h *customHistory) give(i int) error {
	r := h.taken[i]
	h.taken = slices.Delete(h.taken, i, i+1)
	before, numbers := h.used(h.now), h.numbers
	h.numbers = h.custom.Give(h.limit, h.numbers, h.now, r.units, r.at)
	if used := h.used(h.now); used > before || used < max(0, before-r.units) {
		return fmt.Errorf("%v: Give of %d units: Used changed from %d to %d, want %d to %d",
			h, r.units, before, used, max(0, before-r.units), before)
	}
	if !r.expired {
		return nil
	}
	period := h.limit.Period.Microseconds()
	for _, at := range []int64{h.now, h.now + period/2, h.now + period} {
		if got, want := h.used(at), h.custom.Used(h.limit, numbers, at); got != want {
			return fmt.Errorf("%v: Give of %d expired units, taken %v earlier: Used changed from %d to %d, want no change",
				h, r.units, micros(h.now-r.at), want, got)
		}
	}
	return nil
}

// retry takes units until a take is denied. That take must be allowed after RetryAfter, and not a microsecond earlier.
func (h *customHistory) retry(plan *algorithm.Plan) error {
	var state algorithm.State
	n := 1 + h.random(h.limit.Capacity()-1)
	for {
		next, d := plan.Take(state, h.now, n, 0)
		if !d.Allowed {
			after := d.RetryAfter.Microseconds()
			if after <= 0 || plan.Decide(state, h.now+after-1, n).Allowed || !plan.Decide(state, h.now+after, n).Allowed {
				return fmt.Errorf("%v: %d units are allowed before or only after RetryAfter %v: Used must not increase with time",
					h, n, d.RetryAfter)
			}
			return nil
		}
		state = next
	}
}

func (h *customHistory) String() string {
	return fmt.Sprintf("%v after the start, numbers %v", micros(h.now-Start.UnixMicro()), h.numbers)
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
