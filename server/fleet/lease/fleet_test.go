package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/internal/stepstore"
)

// A virtualFleet is nodes over one store, in a bubble.
type virtualFleet struct {
	t     *testing.T
	store *stepstore.Store
	wires []*leaseWire
	nodes []*Limiter
	began time.Time
}

func newVirtualFleet(t *testing.T, nodes int, delay func() time.Duration, o Options) *virtualFleet {
	f := &virtualFleet{t: t, store: stepstore.New(time.Now), began: time.Now()}
	o.Members = fixedMembers(nodes)
	for range nodes {
		f.add(delay, o)
	}
	return f
}

func (f *virtualFleet) add(delay func() time.Duration, o Options) *Limiter {
	w := newLeaseWire(f.store)
	w.delay = delay
	l := newTestLease(f.t, w, o)
	f.wires, f.nodes = append(f.wires, w), append(f.nodes, l)
	return l
}

// offer has each node asked so many times a second, for a while, and returns what passed.
func (f *virtualFleet) offer(c headgate.Check, perNode float64, lasting time.Duration) (*passages, *counts) {
	ctx, cancel := context.WithTimeout(context.Background(), lasting)
	defer cancel()
	passed, count := &passages{}, &counts{}
	var group sync.WaitGroup
	for i, l := range f.nodes {
		crowd := leaseCrowd{
			limiter: l, check: c, rate: perNode, workers: 32, seed: uint64(i), passed: passed, began: f.began, count: count,
		}
		group.Go(func() {
			if err := crowd.run(ctx); err != nil {
				f.t.Error(err)
			}
		})
	}
	group.Wait()
	return passed, count
}

func TestFourNodesHandOutNearlyAllOfALimitAndNoMore(t *testing.T) {
	for _, tt := range []struct {
		limit string
		times []float64 // the limit is offered
	}{
		{"1000/s", []float64{2, 10, 100}},
		{"1000/s gcra burst 200", []float64{10}},
		{"50/s burst 10", []float64{10}},
		{"7/s", []float64{10}},
		{"1000/s fixed-window", []float64{2, 10}},
		{"600/m sliding-window", []float64{10}},
	} {
		for _, times := range tt.times {
			t.Run(fmt.Sprintf("%s %g×", tt.limit, times), func(t *testing.T) {
				if racing.Enabled && times >= 100 {
					t.Skip("it takes long with the race detector, and races show with less")
				}
				synctest.Test(t, func(t *testing.T) { testFullUse(t, headgate.MustParseLimit(tt.limit), times) })
			})
		}
	}
}

func testFullUse(t *testing.T, limit headgate.Limit, times float64) {
	const nodes = 4
	rate := float64(limit.Count) / limit.Period.Seconds()
	lasting, short := 20*time.Second, times >= 100 || racing.Enabled && times*rate > 1000
	if short {
		lasting = 4 * time.Second
	}
	if limit.Algorithm == headgate.FixedWindow {
		time.Sleep(time.Until(time.Now().Truncate(limit.Period).Add(limit.Period))) // whole windows only
	}
	f := newVirtualFleet(t, nodes, roundTrip(time.Millisecond), Options{})
	passed, count := f.offer(headgate.Check{Key: "hot", Limit: limit, Cost: 1}, times*rate/nodes, lasting)
	if err := passed.over(limit, DefaultTTL, f.began); err != nil {
		t.Error(err)
	}
	most := mostOf(limit, lasting)
	switch limit.Algorithm {
	case headgate.FixedWindow:
		most = rate * lasting.Seconds()
	case headgate.SlidingWindow:
		most = max(float64(limit.Count), rate*lasting.Seconds())
	}
	// What comes in an eighth of a second stays in the bucket when many take from it. In a minute that is little.
	got, least := float64(passed.total()), 0.99*most
	if short {
		least -= rate / 8
	}
	if got < least {
		t.Errorf("%.0f units passed, %.2f %% of %.0f, want at least %.0f", got, percent(got, most), most, least)
	}
	for i, w := range f.wires {
		perSecond := float64(w.callsMade()) / lasting.Seconds()
		if perSecond > 20 {
			t.Errorf("node %d made %.1f calls a second, want at most 20", i, perSecond)
		}
		if i == 0 {
			t.Logf("%.2f %% of the limit; %d of %d denied; slowest admitted %v; node 0: %.1f calls/s, %+v",
				percent(got, most), count.refused, count.asked, count.slowest, perSecond, f.nodes[0].Stats())
		}
	}
}

func TestBelowTheLimitNobodyIsDenied(t *testing.T) {
	for _, tt := range []struct {
		limit string
		times float64
	}{
		{"1000/s", 0.5},
		{"1000/s", 0.9},
		{"20000/s burst 5000", 0.8},
		{"100/s burst 100", 0.5},
		{"600/m", 0.5},
		{"1000/s sliding-window", 0.7},
		{"1000/s fixed-window", 0.7},
	} {
		t.Run(fmt.Sprintf("%s %g×", tt.limit, tt.times), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const nodes = 4
				lasting := 20 * time.Second
				if racing.Enabled {
					lasting = 4 * time.Second
				}
				limit := headgate.MustParseLimit(tt.limit)
				f := newVirtualFleet(t, nodes, roundTrip(time.Millisecond), Options{})
				rate := float64(limit.Count) / limit.Period.Seconds()
				_, count := f.offer(headgate.Check{Key: "calm", Limit: limit, Cost: 1}, tt.times*rate/nodes, lasting)
				if count.refused > 0 || count.allowed < int64(0.8*tt.times*rate*lasting.Seconds()) {
					t.Errorf("%d allowed and %d denied, want about %.0f and none", count.allowed, count.refused, tt.times*rate*lasting.Seconds())
				}
				for i, w := range f.wires {
					if most := int(20 * lasting.Seconds()); w.callsMade() > most || f.nodes[i].Stats().Exact > 0 {
						t.Errorf("node %d made %d calls, want at most %d, and none for one check alone: %+v", i, w.callsMade(), most, f.nodes[i].Stats())
					}
				}
				t.Logf("slowest %v; node 0: %d calls, %+v", count.slowest, f.wires[0].callsMade(), f.nodes[0].Stats())
			})
		})
	}
}

func TestNodesThatAreKilledAndAddedLoseLittle(t *testing.T) {
	for _, limit := range []string{"1000/s", "1000/s fixed-window", "100/s burst 50 gcra"} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testKills(t, headgate.MustParseLimit(limit)) })
		})
	}
}

func testKills(t *testing.T, limit headgate.Limit) {
	const nodes = 4
	lasting := 30 * time.Second
	if racing.Enabled {
		lasting = 10 * time.Second
	}
	if limit.Algorithm == headgate.FixedWindow {
		time.Sleep(time.Until(time.Now().Truncate(limit.Period).Add(limit.Period)))
	}
	f := newVirtualFleet(t, 0, nil, Options{})
	rate := float64(limit.Count) / limit.Period.Seconds()
	passed, count := &passages{}, &counts{}
	c := headgate.Check{Key: "hot", Limit: limit, Cost: 1}
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	rng := rand.New(rand.NewPCG(7, 7))
	var group sync.WaitGroup
	kills := 0
	for i := range nodes {
		seed := rng.Uint64()
		group.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for ctx.Err() == nil {
				life, end := context.WithTimeout(ctx, time.Second+time.Duration(rng.Int64N(int64(3*time.Second))))
				w := newLeaseWire(f.store)
				w.delay = roundTrip(time.Millisecond)
				l := newTestLease(t, w, Options{Members: fixedMembers(nodes)})
				crowd := leaseCrowd{
					limiter: l, check: c, rate: 10 * rate / nodes, workers: 16, seed: rng.Uint64(), passed: passed, began: f.began, count: count,
				}
				if err := crowd.run(life); err != nil {
					t.Error(err)
				}
				end()
				w.sever(true) // what it holds is lost
				count.mu.Lock()
				kills++
				count.mu.Unlock()
			}
		})
	}
	group.Wait()
	if err := passed.over(limit, DefaultTTL, f.began); err != nil {
		t.Error(err)
	}
	most := mostOf(limit, lasting)
	if limit.Algorithm == headgate.FixedWindow {
		most = rate * lasting.Seconds()
	}
	if got := float64(passed.total()); got < 0.966*most {
		t.Errorf("%.0f units passed with %d kills, %.2f %% of %.0f, want at least 96.6 %%", got, kills, percent(got, most), most)
	} else {
		t.Logf("%d kills, %.2f %% of the limit", kills, percent(got, most))
	}
}

// TestWhateverHappensNeverMoreThanTheLimit draws fleets, limits, delays, faults and stops by chance.
func TestWhateverHappensNeverMoreThanTheLimit(t *testing.T) {
	runs := 60
	if racing.Enabled {
		runs = 15
	}
	for run := range runs {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testTrouble(t, uint64(run)) })
		})
	}
}

func testTrouble(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	limits := []string{
		"100/s", "1000/s burst 50", "37/s gcra burst 100", "5/s", "200/s fixed-window", "20/100ms fixed-window", "300/s sliding-window",
		"1000/m burst 400", "3/s burst 1",
	}
	limit := headgate.MustParseLimit(limits[rng.IntN(len(limits))])
	nodes := 1 + rng.IntN(6)
	ttl := time.Duration(10+rng.IntN(91)) * time.Millisecond
	o := Options{TTL: ttl, Members: fixedMembers(1 + rng.IntN(2*nodes))}
	longest := []time.Duration{time.Millisecond, 10 * time.Millisecond, 80 * time.Millisecond, 300 * time.Millisecond}[rng.IntN(4)]
	f := &virtualFleet{t: t, store: stepstore.New(time.Now), began: time.Now()}
	passed, count := &passages{}, &counts{}
	lasting := time.Duration(1+rng.IntN(5)) * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	rate := float64(limit.Count) / limit.Period.Seconds()
	var group sync.WaitGroup
	for i := range nodes {
		times, seed := 0.2+10*rng.Float64(), rng.Uint64()
		group.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for ctx.Err() == nil {
				w := newLeaseWire(f.store)
				wrng := rand.New(rand.NewPCG(rng.Uint64(), 1))
				w.delay = func() time.Duration { return time.Duration(wrng.Int64N(int64(longest))) }
				l := newTestLease(t, w, o)
				f.live(ctx, w, l, headgate.Check{Key: "k", Limit: limit, Cost: 1 + rng.Int64N(min(3, limit.Capacity()))},
					times*rate/float64(nodes), rng, passed, count)
			}
		})
	}
	group.Wait()
	if err := passed.over(limit, ttl, f.began); err != nil {
		t.Errorf("%d nodes, TTL %v, delays up to %v: %v", nodes, ttl, longest, err)
	}
	if got := passed.total(); got == 0 && longest < ttl { // a grant that takes longer than its TTL is worth nothing
		t.Errorf("%d nodes, TTL %v, delays up to %v: nothing passed", nodes, ttl, longest)
	}
}

// live is the life of one node: it is asked, stopped and resumed, cut off, and in the end killed or closed.
func (f *virtualFleet) live(ctx context.Context, w *leaseWire, l *Limiter, c headgate.Check, rate float64, rng *rand.Rand, passed *passages, count *counts) {
	for range 1 + rng.IntN(4) {
		shift, end := context.WithTimeout(ctx, time.Duration(1+rng.Int64N(int64(time.Second))))
		crowd := leaseCrowd{
			limiter: l, check: c, rate: rate, workers: 8, seed: rng.Uint64(), passed: passed, began: f.began, count: count,
		}
		if err := crowd.run(shift); err != nil {
			f.t.Error(err)
		}
		end()
		if rng.IntN(2) == 0 { // it stops with all it has, and hears what was on its way when it goes on
			resume := w.pause()
			time.Sleep(time.Duration(rng.Int64N(int64(200 * time.Millisecond))))
			resume()
		}
	}
	switch rng.IntN(3) {
	case 0:
		w.sever(true)
	case 1:
		if err := l.Close(ctx); err != nil && ctx.Err() == nil {
			f.t.Errorf("close: %v", err)
		}
	}
}

// A key that is asked for on one of many nodes has the whole limit there.
func TestOneOfManyNodesHasTheWholeLimitIfNobodyElseTakesOfIt(t *testing.T) {
	newNode := func(t *testing.T, nodes int) *Limiter {
		w := newLeaseWire(stepstore.New(time.Now))
		w.delay = roundTrip(time.Millisecond)
		return newTestLease(t, w, Options{Members: fixedMembers(nodes)})
	}
	for _, text := range []string{"60/h", "10/s burst 100", "100/h fixed-window"} {
		limit := headgate.MustParseLimit(text)
		for _, nodes := range []int{1, 4, 10, 20} {
			name := fmt.Sprintf("%s on one of %d nodes", text, nodes)
			synctest.Test(t, func(t *testing.T) { // one after the other
				l := newNode(t, nodes)
				passed := int64(0)
				for passed <= limit.Capacity() && mustLease(t, l, headgate.Check{Key: "k", Limit: limit, Cost: 1}).Allowed {
					passed++
				}
				if passed < limit.Capacity() {
					t.Errorf("%s, one after the other: %d passed, want %d", name, passed, limit.Capacity())
				}
			})
			synctest.Test(t, func(t *testing.T) { // all at once
				l := newNode(t, nodes)
				var passed atomic.Int64
				var group sync.WaitGroup
				for range limit.Capacity() + 20 {
					group.Go(func() {
						if mustLease(t, l, headgate.Check{Key: "k", Limit: limit, Cost: 1}).Allowed {
							passed.Add(1)
						}
					})
				}
				group.Wait()
				if got := passed.Load(); got < limit.Capacity() {
					t.Errorf("%s, all at once: %d passed, want %d", name, got, limit.Capacity())
				}
			})
		}
	}
	synctest.Test(t, func(t *testing.T) { // a bit more than the limit, for a while
		limit := headgate.PerSecond(100)
		f := &virtualFleet{t: t, store: stepstore.New(time.Now), began: time.Now()}
		f.add(roundTrip(time.Millisecond), Options{Members: fixedMembers(20)})
		passed, _ := f.offer(headgate.Check{Key: "k", Limit: limit, Cost: 1}, 120, 10*time.Second)
		if got := passed.total(); got < 1050 {
			t.Errorf("%d passed in 10 s on one of 20 nodes, want nearly 1100", got)
		}
	})
}
