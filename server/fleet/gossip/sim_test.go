//go:build !race

package gossip

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
)

// An offer is a key for which requests come to all hosts, more than its limit lets pass.
type offer struct {
	key    string
	limit  headgate.Limit
	rate   float64 // requests a second, all hosts together
	tick   time.Duration
	began  time.Duration
	passed int64
	worst  float64 // the most that was let pass beyond burst + rate·t
}

// allowed is how much may have passed by now.
func (o *offer) allowed(now time.Duration) float64 {
	return float64(o.limit.Capacity()) + float64(o.limit.Count)*float64(now-o.began)/float64(o.limit.Period)
}

// offer lets requests come until stop is called.
func (w *gossipWorld) offer(o *offer, hosts []*worldHost) (stop func()) {
	if o.tick == 0 {
		o.tick = 5 * time.Millisecond
	}
	o.began = w.now
	on := true
	each := o.rate * o.tick.Seconds() / float64(len(hosts))
	w.every(o.tick, func() bool {
		if !on {
			return false
		}
		for _, h := range hosts {
			n := int(each)
			if w.random.Float64() < each-float64(n) {
				n++
			}
			o.passed += h.take(w.t, o.key, o.limit, n)
		}
		o.worst = max(o.worst, float64(o.passed)-o.allowed(w.now))
		return true
	})
	return func() { on = false }
}

// bound is what may slip through at most: S is the age of updates at most.
func (o *offer) bound(hosts int, s time.Duration) float64 {
	r := float64(o.limit.Count) / o.limit.Period.Seconds()
	return min(float64(hosts-1)*(float64(o.limit.Capacity())+r*s.Seconds()), (o.rate-r)*s.Seconds())
}

// The example of the book: three hosts, a limit of 4/s, and a bucket of 4 on each.
func TestGossipThreeHostsInVirtualTime(t *testing.T) {
	t.Parallel()
	limit := headgate.PerSecond(4)
	start := func(t *testing.T) (*gossipWorld, []*worldHost) {
		w := newGossipWorld(t, 1)
		return w, w.fleet(3, nil)
	}
	t.Run("12 slip through at once, all end at -8 and stay closed for 2s", func(t *testing.T) {
		w, hosts := start(t)
		for _, h := range hosts {
			if passed := h.take(t, "k", limit, 5); passed != 4 {
				t.Fatalf("%s let %d pass, want 4", h.name, passed)
			}
		}
		w.run(240 * time.Millisecond)
		for _, h := range hosts {
			if got := h.remaining(t, "k", limit); got != -8 {
				t.Errorf("%s has %d left, want -8", h.name, got)
			}
		}
		w.run(2*time.Second - 240*time.Millisecond)
		for _, h := range hosts {
			if passed := h.take(t, "k", limit, 1); passed != 0 {
				t.Errorf("%s is open after 2s", h.name)
			}
		}
		w.run(260 * time.Millisecond)
		for _, h := range hosts {
			if got := h.remaining(t, "k", limit); got != 1 {
				t.Errorf("%s has %d left after 2.26s, want 1", h.name, got)
			}
		}
	})
	t.Run("A takes 1, C 1, B 2, and all have 0", func(t *testing.T) {
		w, hosts := start(t)
		for i, n := range []int{1, 2, 1} {
			hosts[i].take(t, "k", limit, n)
		}
		w.run(240 * time.Millisecond)
		for _, h := range hosts {
			if got := h.remaining(t, "k", limit); got != 0 {
				t.Errorf("%s has %d left, want 0", h.name, got)
			}
		}
	})
}

func TestGossipStaysWithinItsBoundWhereTheNetworkLosesAndDelays(t *testing.T) {
	t.Parallel()
	const hosts = 10
	for _, times := range []float64{2, 10} {
		t.Run(fmt.Sprintf("%v times the limit", times), func(t *testing.T) {
			w := newGossipWorld(t, 11)
			w.loss, w.delay, w.twice = 0.2, 50*time.Millisecond, 0.1
			fleet := w.fleet(hosts, func(_ *fleet.LedgerOptions, o *Options) { o.Interval = 100 * time.Millisecond })
			// Each of these keys takes 1 % of the traffic or more; they share the bandwidth with a crowd of cold ones.
			var offers []*offer
			for i := range 3 {
				o := &offer{key: fmt.Sprint("hot", i), limit: headgate.PerSecond(100)}
				o.rate = times * 100
				offers = append(offers, o)
				w.offer(o, fleet)
			}
			cold := 0
			w.every(50*time.Millisecond, func() bool {
				for range 10 {
					cold++
					fleet[w.random.IntN(hosts)].take(t, fmt.Sprint("cold", cold%2000), headgate.PerMinute(60), 1)
				}
				return true
			})
			w.run(6 * time.Second)
			for _, o := range offers {
				if bound := o.bound(hosts, time.Second); o.worst > bound {
					t.Errorf("%s: %.0f more than burst + rate·t passed at the worst, want at most %.0f", o.key, o.worst, bound)
				}
				if share := float64(o.passed) / o.allowed(w.now); share < 0.9 || share > 1.1 {
					t.Errorf("%s: %.3f of the limit was used, want 0.9 to 1.1", o.key, share)
				}
			}
			for _, h := range fleet {
				if rate := float64(h.mesh.bytes) / 6; rate > DefaultBandwidth {
					t.Errorf("%s sent %.0f bytes a second, want at most %d", h.name, rate, DefaultBandwidth)
				}
			}
			t.Logf("%.0f over at the worst, bound %.0f, used %.4f, %d bytes/s", offers[0].worst, offers[0].bound(hosts, time.Second),
				float64(offers[0].passed)/offers[0].allowed(w.now), fleet[0].mesh.bytes/6)
		})
	}
}

func TestGossipDoesNotDriftInTenMinutes(t *testing.T) {
	t.Parallel()
	w := newGossipWorld(t, 21)
	w.loss, w.delay, w.twice = 0.2, 50*time.Millisecond, 0.1
	fleet := w.fleet(10, func(_ *fleet.LedgerOptions, o *Options) { o.Interval = 400 * time.Millisecond })
	o := &offer{key: "k", limit: headgate.PerSecond(20), rate: 60, tick: 50 * time.Millisecond}
	stop := w.offer(o, fleet)
	for minute := range 10 {
		w.run(time.Minute)
		// What is over is debt that is being repaid: it does not grow with time.
		if over := float64(o.passed) - o.allowed(w.now); over > 2*float64(o.limit.Capacity()) {
			t.Errorf("after %d minutes %.0f passed that should not have, want no more than at the beginning", minute+1, over)
		}
		if used := float64(o.passed) / o.allowed(w.now); used < 0.97 {
			t.Errorf("after %d minutes %.4f of the limit was used, want 0.97 or more", minute+1, used)
		}
	}
	stop()
	w.run(2 * time.Second)
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, h := range fleet {
		left := h.remaining(t, "k", o.limit)
		least, most = min(least, left), max(most, left)
	}
	if most-least > 2 {
		t.Errorf("hosts think that %d to %d are left, want the same", least, most)
	}
	t.Logf("used %.4f, %.0f over at the worst", float64(o.passed)/o.allowed(w.now), o.worst)
}

func TestGossipHealsAfterAPartition(t *testing.T) {
	t.Parallel()
	for _, share := range []bool{false, true} {
		t.Run(map[bool]string{false: "full", true: "share"}[share], func(t *testing.T) {
			w := newGossipWorld(t, 31)
			w.loss, w.delay = 0.2, 50*time.Millisecond
			fleet := w.fleet(10, func(_ *fleet.LedgerOptions, o *Options) { o.Interval = 200 * time.Millisecond })
			half := map[string]bool{}
			for _, h := range fleet[:5] {
				half[h.name] = true
			}
			o := &offer{key: "k", limit: headgate.PerSecond(50), rate: 250, tick: 20 * time.Millisecond}
			if share {
				o.key = "shared"
				w.sharing = true
			}
			w.offer(o, fleet)
			w.run(10 * time.Second)

			w.severs = func(a, b string) bool { return half[a] != half[b] }
			w.run(fleet[0].lostAfter() + 400*time.Millisecond)
			before := o.passed
			if got := fleet[0].Live(); got != 5 {
				t.Errorf("%d live in a half, want 5", got)
			}
			if got := fleet[0].Known(); got != 10 {
				t.Errorf("%d known in a half, want 10", got)
			}
			w.run(5 * time.Second)
			during := float64(o.passed - before)

			w.severs = func(string, string) bool { return false }
			w.run(45 * time.Second)
			if used := float64(o.passed) / o.allowed(w.now); used < 0.96 || used > 1.01 {
				t.Errorf("%.4f of the limit was used in the end, want at most 1.01", used)
			}
			want := 250.0
			if !share {
				want = 500
			}
			// A share begins with what was consumed of the whole, and repays that: up to a burst passes less.
			if during > want*1.3 || during < (want-50)*0.7 {
				t.Errorf("%.0f passed in 5s of partition, want about %.0f", during, want)
			}
		})
	}
}

func TestGossipNewcomerFindsTheLevelOfTheOthers(t *testing.T) {
	t.Parallel()
	w := newGossipWorld(t, 41)
	w.delay = 10 * time.Millisecond
	limit := headgate.PerHour(1000)
	old := w.fleet(2, nil)
	old[0].take(t, "k", limit, 300)
	old[1].take(t, "k", limit, 300)
	w.run(time.Minute)
	late := w.host("late", nil)
	w.run(time.Second)
	for _, h := range append(old, late) {
		if got := h.remaining(t, "k", limit); got < 400 || got > 418 {
			t.Errorf("%s has %d left, want 400 and what a minute adds", h.name, got)
		}
	}
	late.take(t, "k", limit, 100)
	w.run(time.Second)
	for _, h := range append(old, late) {
		if got := h.remaining(t, "k", limit); got < 300 || got > 318 {
			t.Errorf("%s has %d left, want 300 and what a minute adds", h.name, got)
		}
	}
}

func TestGossipHostThatRestartsBeginsAnew(t *testing.T) {
	t.Parallel()
	w := newGossipWorld(t, 51)
	w.delay = 10 * time.Millisecond
	limit := headgate.PerHour(1000)
	prompt := func(lo *fleet.LedgerOptions, _ *Options) { lo.Lag = time.Second }
	fleet := w.fleet(3, prompt)
	fleet[2].take(t, "k", limit, 200)
	w.run(3 * time.Second)
	// It dies without a farewell, and packets of its first life are still on their way when the second begins.
	delete(w.hosts, fleet[2].name)
	fleet[2].take(t, "k", limit, 100)
	fleet[2].sender.runRound()
	again := w.host(fleet[2].name, prompt)
	again.take(t, "k", limit, 50)
	w.run(2 * time.Second)
	fleet[2].sender.runRound()
	again.take(t, "k", limit, 50)
	w.run(2 * time.Second)
	for _, h := range []*worldHost{fleet[0], fleet[1], again} {
		if got := h.remaining(t, "k", limit); got < 600 || got > 703 {
			t.Errorf("%s has %d left, want 700, or 600 if the last words of the first life were heard", h.name, got)
		}
	}
	if got := fleet[0].Live(); got != 3 {
		t.Errorf("%d hosts live, want 3", got)
	}
}

func TestGossipSpreadsThroughALargeFleet(t *testing.T) {
	t.Parallel()
	w := newGossipWorld(t, 61)
	w.loss, w.delay = 0.1, 20*time.Millisecond
	const hosts = 40
	fleet := w.fleet(hosts, nil)
	w.run(time.Second)
	limit := headgate.PerHour(1000)
	sent := w.sent
	fleet[7].take(t, "k", limit, 100)
	w.run(3 * time.Second)
	for _, h := range fleet {
		if got := h.remaining(t, "k", limit); got != 900 && got != 901 {
			t.Errorf("%s has %d left, want 900", h.name, got)
		}
	}
	// Each host passes each of the four packets on once, to four others.
	if got, most := w.sent-sent, int64(4*4*hosts+100); got > most {
		t.Errorf("%d packets for one change, want at most %d", got, most)
	}
	if fleet[3].Stats().Duplicates == 0 {
		t.Error("nothing came twice, so it is not known whether that adds nothing")
	}
}

// Where packets are passed on, hosts must leave each other room.
func TestGossipSharesTheBandwidthInALargeFleet(t *testing.T) {
	t.Parallel()
	w := newGossipWorld(t, 65)
	w.loss, w.delay = 0.1, 20*time.Millisecond
	const hosts, bandwidth, seconds = 18, 150_000, 2
	fleet := w.fleet(hosts, func(_ *fleet.LedgerOptions, o *Options) { o.Bandwidth, o.Interval = bandwidth, 150*time.Millisecond })
	limit := headgate.Per(10_000, 300*24*time.Hour)
	on := true
	w.every(20*time.Millisecond, func() bool {
		for _, h := range fleet {
			for range 3 {
				h.take(t, fmt.Sprint("k", w.random.IntN(40)), limit, 1)
			}
		}
		return on
	})
	w.run(seconds * time.Second)
	on = false
	for _, h := range fleet {
		if rate := h.mesh.bytes / seconds; rate > bandwidth*13/10 {
			t.Errorf("%s sent %d bytes a second, want up to %d", h.name, rate, bandwidth)
		}
		if h.Stats().Sent < 50 || h.Stats().Skipped == 0 {
			t.Errorf("%s sent %d packets, of which it left out %d tallies: want some of both", h.name, h.Stats().Sent, h.Stats().Skipped)
		}
	}
	w.run(25 * time.Second)
	for k := range 40 {
		first := fleet[0].remaining(t, fmt.Sprint("k", k), limit)
		for _, h := range fleet {
			if got := h.remaining(t, fmt.Sprint("k", k), limit); got != first {
				t.Errorf("%s has %d left of k%d, %s %d", h.name, got, k, fleet[0].name, first)
			}
		}
	}
}

func TestGossipKeepsToItsBandwidth(t *testing.T) {
	t.Parallel()
	w := newGossipWorld(t, 71)
	w.delay = 5 * time.Millisecond
	const bandwidth, hosts, keys = 50_000, 4, 1500
	fleet := w.fleet(hosts, func(_ *fleet.LedgerOptions, o *Options) { o.Bandwidth = bandwidth })
	w.every(10*time.Millisecond, func() bool {
		for _, h := range fleet {
			for range 15 {
				h.take(t, fmt.Sprint("cold", w.random.IntN(keys)), headgate.PerMinute(10_000), 1)
			}
			h.take(t, "hot", headgate.PerMinute(10_000), 3)
		}
		return true
	})
	w.run(4 * time.Second)
	for _, h := range fleet {
		if rate := h.mesh.bytes / 4; rate > bandwidth*12/10 || rate < bandwidth/2 {
			t.Errorf("%s sent %d bytes a second, want up to %d, and to make use of it", h.name, rate, bandwidth)
		}
	}
	// The hot key is told at once whatever else waits: 12 units are taken of it in 10 ms.
	first := fleet[0].remaining(t, "hot", headgate.PerMinute(10_000))
	for _, h := range fleet {
		if got := h.remaining(t, "hot", headgate.PerMinute(10_000)); got < first-12*40 || got > first+12*40 {
			t.Errorf("%s has %d left of the hot key, %s %d: updates are older than 400ms", h.name, got, fleet[0].name, first)
		}
	}
	if fleet[0].Stats().Skipped+fleet[0].Stats().Waiting == 0 {
		t.Error("all was told, so it is not known what happens if it does not fit")
	}
}

func TestGossipForgetsWhoWasSilentForLong(t *testing.T) {
	t.Parallel()
	w := newGossipWorld(t, 81)
	fleet := w.fleet(3, func(_ *fleet.LedgerOptions, o *Options) { o.Forget = time.Minute })
	w.severs = func(a, b string) bool { return a == fleet[1].name || b == fleet[1].name }
	w.run(64 * time.Second)
	if live, known := fleet[0].Live(), fleet[0].Known(); live != 2 || known != 3 {
		t.Errorf("%d live and %d known, want 2 and 3", live, known)
	}
	w.run(3 * time.Second)
	if live, known := fleet[0].Live(), fleet[0].Known(); live != 2 || known != 2 {
		t.Errorf("%d live and %d known a minute after one was lost, want 2 and 2", live, known)
	}
	if err := fleet[2].Close(); err != nil {
		t.Fatal(err)
	}
	w.run(time.Second)
	if live, known := fleet[0].Live(), fleet[0].Known(); live != 1 || known != 1 {
		t.Errorf("%d live and %d known after a farewell, want 1 and 1", live, known)
	}
}
