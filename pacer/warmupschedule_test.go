package pacer

import (
	"math/big"
	"testing"
	"time"
)

func warmCore(t *testing.T, r Rate, warmUp time.Duration, factor float64) *warmUpSchedule {
	t.Helper()
	w, err := WarmingUpOptions{Rate: r, WarmUp: warmUp, ColdFactor: factor}.schedule()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// coldOf returns the state of a pacer that is as cold as it gets.
func coldOf(w *warmUpSchedule) state { return state{saved: w.maxSaved} }

// priceList is an independent model of a warming pacer, in exact fractions: it knows permits in store and the price of
// each, and sums prices numerically instead of by a formula.
type priceList struct {
	stable, cold, threshold, most, coolDown *big.Rat
	stored, free                            *big.Rat
}

func newPriceList(r Rate, warmUp time.Duration, hundredths int64) *priceList {
	p := &priceList{free: new(big.Rat)}
	period := new(big.Rat).SetInt64(int64(warmUp))
	p.stable = big.NewRat(int64(r.Per), r.Permits)
	p.cold = new(big.Rat).Mul(p.stable, big.NewRat(hundredths, 100))
	p.threshold = new(big.Rat).Quo(period, p.stable)
	p.threshold.Mul(p.threshold, big.NewRat(1, 2))
	p.most = new(big.Rat).Quo(period, new(big.Rat).Add(p.stable, p.cold))
	p.most.Mul(p.most, big.NewRat(2, 1)).Add(p.most, p.threshold)
	p.coolDown = new(big.Rat).Quo(period, p.most)
	p.stored = new(big.Rat).Set(p.most)
	return p
}

// price is that of the permit at height x of the store.
func (p *priceList) price(x *big.Rat) *big.Rat {
	if x.Cmp(p.threshold) <= 0 {
		return p.stable
	}
	up := new(big.Rat).Sub(x, p.threshold)
	up.Quo(up, new(big.Rat).Sub(p.most, p.threshold))
	up.Mul(up, new(big.Rat).Sub(p.cold, p.stable))
	return up.Add(up, p.stable)
}

// sum adds up the prices from low to high: slice by slice, each at the price of its middle. A slice that has the
// threshold in it is cut there, as the middle speaks for a whole slice only where the price is a straight line.
func (p *priceList) sum(low, high *big.Rat) *big.Rat {
	if low.Cmp(p.threshold) < 0 && p.threshold.Cmp(high) < 0 {
		below := p.sum(low, p.threshold)
		return below.Add(below, p.sum(p.threshold, high))
	}
	const slices = 4
	width := new(big.Rat).Sub(high, low)
	width.Quo(width, big.NewRat(slices, 1))
	total := new(big.Rat)
	for i := range int64(slices) {
		middle := new(big.Rat).Mul(width, big.NewRat(2*i+1, 2))
		middle.Add(middle, low)
		total.Add(total, new(big.Rat).Mul(p.price(middle), width))
	}
	return total
}

func (p *priceList) take(at, n int64) (grant *big.Rat) {
	now := new(big.Rat).SetInt64(at)
	if now.Cmp(p.free) > 0 {
		cooled := new(big.Rat).Sub(now, p.free)
		p.stored.Add(p.stored, cooled.Quo(cooled, p.coolDown))
		if p.stored.Cmp(p.most) > 0 {
			p.stored.Set(p.most)
		}
		p.free = now
	}
	grant = new(big.Rat).Set(p.free)
	wanted := new(big.Rat).SetInt64(n)
	left := new(big.Rat).Sub(p.stored, wanted)
	fresh := new(big.Rat)
	if left.Sign() < 0 {
		fresh.Neg(left)
		left.SetInt64(0)
	}
	cost := p.sum(left, p.stored)
	cost.Add(cost, fresh.Mul(fresh, p.stable))
	p.free = new(big.Rat).Add(p.free, cost)
	p.stored = left
	return grant
}

func TestWarmingUpCostsTheAreaOfTheTrapezoid(t *testing.T) {
	for _, c := range []struct {
		rate       Rate
		warmUp     time.Duration
		hundredths int64
	}{
		{PerSecond(2), 4 * time.Second, 300},
		{PerSecond(300), 10 * time.Second, 300},
		{PerSecond(7), 3 * time.Second, 300},
		{PerSecond(7), 3 * time.Second, 100},
		{PerSecond(1_000_003), 10 * time.Minute, 300},
		{PerSecond(50), time.Second, 150},
		{PerSecond(50), 999_999_937, 275},
		{Rate{1000, time.Hour}, 24 * time.Hour, 1000},
		{Rate{11, 13 * time.Minute}, time.Hour, 101},
	} {
		name := c.rate.String() + " warm-up " + c.warmUp.String() + " factor " + big.NewRat(c.hundredths, 100).FloatString(2)
		t.Run(name, func(t *testing.T) {
			w := warmCore(t, c.rate, c.warmUp, float64(c.hundredths)/100)
			model := newPriceList(c.rate, c.warmUp, c.hundredths)
			rng := seeded(t, 21)
			s := coldOf(w)
			most, _ := model.most.Float64()
			var now, grant int64
			var worst float64
			idle := 1
			for i := range 120 {
				if rng.IntN(5) == 0 {
					now = max(now, grant) + rng.Int64N(int64(c.warmUp))
					idle++
				}
				n := 1 + rng.Int64N(1+int64(most/10))
				s, grant = w.take(s, now, n)
				want := model.take(now, n)
				// The surcharge is rounded down before and after, by less than 2 ns, and a grant up by less than 1. What
				// was rounded cancels out until the pacer idles.
				diff := new(big.Rat).Sub(new(big.Rat).SetInt64(grant), want)
				off, _ := diff.Float64()
				worst = max(worst, off, -off)
				if bound := float64(2*idle + 1); off > bound || off < -bound {
					t.Fatalf("request %d: at %d take %d is granted at %d, want %s within %v ns", i, now, n, grant,
						want.FloatString(3), bound)
				}
			}
			t.Logf("never off by more than %.2f ns after %d idle spells", worst, idle-1)
		})
	}
}

// Taken one at a time as fast as they come, the permits above the threshold of a cold pacer cost the warm-up period,
// and from then on every permit costs the stable interval, for ever.
func TestWarmingUpReachesItsRateAndStays(t *testing.T) {
	for _, c := range []struct {
		rate    Rate
		warmUp  time.Duration
		factor  float64
		permits int64 // above the threshold: 2·warmUp/(stable + cold)
	}{
		{PerSecond(300), 10 * time.Second, 3, 1500},
		{PerSecond(7), 4 * time.Second, 3, 14},
		{PerSecond(70), 5 * time.Second, 1.5, 280},
		{PerSecond(110), time.Second, 10, 20},
		{Rate{60, time.Minute}, time.Hour, 1, 3600},
	} {
		t.Run(c.rate.String(), func(t *testing.T) {
			w := warmCore(t, c.rate, c.warmUp, c.factor)
			s := coldOf(w)
			var now, last int64
			first := int64(0)
			for k := range int64(300_000) {
				last = now
				s, now = w.take(s, now, 1)
				switch gap := now - last; {
				case k == 1:
					first = gap
				case k > 1 && k <= c.permits && c.factor > 1 && gap >= first:
					t.Fatalf("permit %d comes %d ns after the one before, want less than the first gap, %d", k, gap, first)
				}
				if k < c.permits {
					continue
				}
				want := int64(c.warmUp) + ceilDiv(k-c.permits, int64(c.rate.Per), c.rate.Permits)
				if now < want-1 || now > want+1 {
					t.Fatalf("permit %d is granted at %d ns, want %d", k, now, want)
				}
			}
			stable := int64(c.rate.Per) / c.rate.Permits
			if cold := int64(float64(stable) * c.factor); first > cold || first < cold*8/10 {
				t.Errorf("the first gap is %d ns, want just below the cold interval of %d", first, cold)
			}
		})
	}
}

func TestWarmingUpSteps(t *testing.T) {
	// Two per second, 4 s of warm-up, factor 3: threshold 4, most 8, prices from 1.5 s at the top to 0.5 s.
	w := warmCore(t, PerSecond(2), 4*time.Second, 3)
	for _, c := range []struct {
		name  string
		start state
		steps []step
	}{
		{"from cold to warm in the warm-up period", coldOf(w), []step{
			{0, 1, 0},
			{0, 1, 1375 * ms},
			{0, 1, 2500 * ms},
			{0, 1, 3375 * ms},
			{0, 1, 4000 * ms}, // warm
			{0, 1, 4500 * ms},
			{0, 1, 5000 * ms},
			{0, 1, 5500 * ms},
			{0, 1, 6000 * ms}, // the store is empty
			{0, 1, 6500 * ms},
		}},
		{"all at once cost the same", coldOf(w), []step{
			{0, 4, 0}, {0, 4, 4 * time.Second}, {0, 4, 6 * time.Second}, {0, 1, 8 * time.Second},
		}},
		{"part from above the threshold, part from below, part fresh", coldOf(w), []step{
			{0, 10, 0}, {0, 1, 7 * time.Second},
		}},
		{"warm, it has no burst to give", state{}, []step{
			{0, 1, 0}, {0, 1, 500 * ms}, {1 * time.Second, 1, 0}, {1 * time.Second, 1, 500 * ms},
		}},
		{"idle for half the warm-up it is at the threshold", state{}, []step{
			{2 * time.Second, 4, 0}, {2 * time.Second, 1, 2 * time.Second},
		}},
		{"idle for three quarters of the warm-up it is half cold", state{}, []step{
			// Six in store, two of them above the threshold: 2 × (1.0 + 0.5)/2 s, then 4 × 0.5 s.
			{3 * time.Second, 6, 0}, {3 * time.Second, 1, 3500 * ms},
		}},
		{"idle for long it is cold, and no colder", state{}, []step{
			{time.Hour, 4, 0}, {time.Hour, 1, 4 * time.Second},
		}},
		{"a clock that steps back adds nothing", coldOf(w), []step{
			{10 * time.Second, 4, 0}, {0, 1, 14 * time.Second},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { playSteps(t, w, c.start, c.steps) })
	}
}

func TestWarmingUpSurchargeNeverFallsWhileCooling(t *testing.T) {
	w := warmCore(t, PerSecond(7), time.Microsecond, 2.75)
	last := int64(0)
	for ns := range w.maxSaved.ns {
		for frac := uint64(0); frac < w.denominator; frac += 3 {
			got := w.surcharge(span{ns: ns, frac: frac})
			if got < last {
				t.Fatalf("surcharge at %d+%d/%d ns = %d, want at least %d", ns, frac, w.denominator, got, last)
			}
			last = got
		}
	}
	if got, want := w.surcharge(w.maxSaved), int64(1000*7/15); got != want { // W·(k−1)/(k+1)
		t.Errorf("surcharge of a cold pacer = %d, want %d", got, want)
	}
}
