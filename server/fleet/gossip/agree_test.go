//go:build !race

package gossip

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// twoRounds is how long two rounds take at most, and the way of their packets.
func (w *gossipWorld) twoRounds() time.Duration {
	return 2*DefaultInterval*11/10 + 2*(w.delay+w.delay/5) + time.Millisecond
}

// wantAgreement fails if hosts think that different numbers of units are left, by more than one.
func wantAgreement(t *testing.T, when, key string, limit headgate.Limit, hosts ...*worldHost) {
	t.Helper()
	least, most := hosts[0].remaining(t, key, limit), hosts[0].remaining(t, key, limit)
	all := ""
	for _, h := range hosts {
		left := h.remaining(t, key, limit)
		least, most = min(least, left), max(most, left)
		all += fmt.Sprintf(" %s %d", h.name, left)
	}
	if most-least > 1 {
		t.Errorf("%s: left of %s:%s, want the same but for one", when, key, all)
	}
}

// The clients of a host that stood still are not denied for what others took meanwhile and has drained since.
func TestGossipHostThatStalledHasWhatTheOthersHave(t *testing.T) {
	t.Parallel()
	limit := headgate.MustParseLimit("20/s burst 20")
	for _, stall := range []time.Duration{time.Second, 3 * time.Second, 5 * time.Second, 20 * time.Second} {
		t.Run(stall.String(), func(t *testing.T) {
			w := newGossipWorld(t, 91)
			w.delay = time.Millisecond
			hosts := w.fleet(3, nil)
			o := &offer{key: "k", limit: limit, rate: 18}
			stop := w.offer(o, hosts[:1])
			w.run(3 * time.Second)
			hosts[1].stall()
			w.run(stall)
			hosts[1].goOn()
			w.run(w.twoRounds())
			wantAgreement(t, "after the stall", "k", limit, hosts...)
			stop()
			w.run(w.twoRounds())
			wantAgreement(t, "when nobody takes any more", "k", limit, hosts...)
			left := hosts[0].remaining(t, "k", limit)
			d, err := hosts[1].Take(t.Context(), hosts[1].check("k", limit, left-1))
			if err != nil || !d.Allowed || left < 2 {
				t.Errorf("a take of %d on the host that stalled: got %+v, %v, want it allowed", left-1, d, err)
			}
			for _, h := range hosts {
				if n := h.Stats().Ledger.Refused; n != 0 {
					t.Errorf("%s refused %d tallies, want none", h.name, n)
				}
			}
		})
	}
}

// A disturbance is something that keeps hosts from hearing each other for a while.
type disturbance struct {
	name string
	// begin has it begin, and returns what ends it, and the hosts there are then.
	begin func(w *gossipWorld, hosts []*worldHost) (end func() []*worldHost)
}

var disturbances = []disturbance{
	{"stall", func(w *gossipWorld, hosts []*worldHost) func() []*worldHost {
		stalled := hosts[w.random.IntN(len(hosts)-1)+1:]
		for _, h := range stalled {
			h.stall()
		}
		return func() []*worldHost {
			for _, h := range stalled {
				h.goOn()
			}
			return hosts
		}
	}},
	{"cut", func(w *gossipWorld, hosts []*worldHost) func() []*worldHost {
		return w.cut(hosts, 1+w.random.IntN(len(hosts)-1))
	}},
	{"join", func(w *gossipWorld, hosts []*worldHost) func() []*worldHost {
		return func() []*worldHost { return append(hosts, w.host("late", nil)) }
	}},
}

// cut parts the first n hosts from the others.
func (w *gossipWorld) cut(hosts []*worldHost, n int) (end func() []*worldHost) {
	side := map[string]bool{}
	for _, h := range hosts[:n] {
		side[h.name] = true
	}
	w.severs = func(a, b string) bool { return side[a] != side[b] }
	return func() []*worldHost {
		w.severs = func(string, string) bool { return false }
		return hosts
	}
}

// Whatever was in the way, and however much each host takes: two rounds after it has ended all hosts have the same
// left, and a client that comes back when it was told to passes.
func TestGossipHostsAgreeTwoRoundsAfterADisturbance(t *testing.T) {
	t.Parallel()
	for _, dis := range disturbances {
		t.Run(dis.name, func(t *testing.T) {
			for seed := range uint64(120) {
				w := newGossipWorld(t, 1000+seed)
				w.delay, w.sharing = time.Millisecond, seed%3 == 0
				limit := w.someLimit()
				hosts := w.fleet(2+w.random.IntN(4), nil)
				stop := w.loads(limit, hosts)
				w.run(time.Duration(1+w.random.IntN(8)) * time.Second)
				end := dis.begin(w, hosts)
				w.run(time.Duration(500+w.random.IntN(10_000)) * time.Millisecond)
				hosts = end()
				if w.random.IntN(2) == 0 { // what they take when it has just ended counts as well
					w.run(w.twoRounds())
				}
				stop()
				w.run(w.twoRounds())
				wantAgreement(t, fmt.Sprintf("seed %d, %d hosts, %v", seed, len(hosts), limit), "k", limit, hosts...)
				h := hosts[w.random.IntN(len(hosts))]
				d, err := h.Take(t.Context(), h.check("k", limit, 1))
				if err != nil {
					t.Fatal(err)
				}
				if !d.Allowed {
					w.run(d.RetryAfter + 10*time.Millisecond) // to within which hosts know when a window ends
					if d, err := h.Take(t.Context(), h.check("k", limit, 1)); err != nil || !d.Allowed {
						t.Errorf("seed %d: after Retry-After: got %+v, %v, want it allowed", seed, d, err)
					}
				}
				for _, h := range hosts {
					_ = h.Close()
				}
			}
		})
	}
}

// someLimit returns a limit of any algorithm that hosts share.
func (w *gossipWorld) someLimit() headgate.Limit {
	count, period := 2+w.random.Int64N(100), time.Duration(1+w.random.IntN(20))*time.Second
	switch w.random.IntN(4) {
	case 0:
		return headgate.Limit{Algorithm: headgate.FixedWindow, Count: count, Period: period}
	case 1:
		return headgate.Limit{Algorithm: headgate.SlidingWindow, Count: count, Period: period}
	case 2:
		return headgate.Limit{Algorithm: headgate.GCRA, Count: count, Period: time.Second, Burst: 5 + w.random.Int64N(200)}
	default:
		return headgate.Limit{Count: count, Period: time.Second, Burst: 5 + w.random.Int64N(200)}
	}
}

// loads has hosts take of a key until stop is called, each as much as chance says: nothing, a part of the limit, or
// more than it.
func (w *gossipWorld) loads(limit headgate.Limit, hosts []*worldHost) (stop func()) {
	on := true
	for _, h := range hosts {
		rate := []float64{0, 0.1, 0.5, 0.9, 3}[w.random.IntN(5)] * float64(limit.Count)
		w.every(5*time.Millisecond, func() bool {
			if on && !h.clock.stalled && w.random.Float64() < rate*0.005 {
				h.take(w.t, "k", limit, 1)
			}
			return on
		})
	}
	return func() { on = false }
}

// Two sides of a cut that together stay within the limit are not denied when they hear of each other again.
func TestGossipSidesWithinTheLimitOweNothingAfterACut(t *testing.T) {
	t.Parallel()
	limit := headgate.MustParseLimit("20/s burst 20")
	for _, n := range []int{2, 3, 5} {
		for _, length := range []time.Duration{3 * time.Second, 30 * time.Second} { // hosts are lost after 5 s
			t.Run(fmt.Sprintf("%d hosts, %v", n, length), func(t *testing.T) {
				w := newGossipWorld(t, 93)
				w.delay = time.Millisecond
				hosts := w.fleet(n, nil)
				o := &offer{key: "k", limit: limit, rate: 15}
				stop := w.offer(o, hosts)
				w.run(3 * time.Second)
				end := w.cut(hosts, n/2)
				w.run(length)
				end()
				w.run(w.twoRounds())
				wantAgreement(t, "after the cut", "k", limit, hosts...)
				stop()
				for _, h := range hosts {
					if left := h.remaining(t, "k", limit); left < 10 {
						t.Errorf("%s has %d left, want most of 20: nobody took more than the limit", h.name, left)
					}
				}
			})
		}
	}
}

// Both sides of a cut notice it within the time that is stated and share the limit from then on. When they hear each
// other again, they owe what passed beyond the limit until they noticed, and no more.
func TestGossipSidesOfACutShareTheLimit(t *testing.T) {
	t.Parallel()
	for _, sides := range [][2]int{{1, 1}, {1, 4}, {3, 2}} {
		t.Run(fmt.Sprint(sides), func(t *testing.T) {
			w := newGossipWorld(t, 95)
			w.delay, w.sharing = time.Millisecond, true
			n := sides[0] + sides[1]
			hosts := w.fleet(n, nil)
			limit := headgate.MustParseLimit("100/s burst 100")
			o := &offer{key: "k", limit: limit, rate: 400, tick: 10 * time.Millisecond}
			w.offer(o, hosts)
			w.run(3 * time.Second)
			end := w.cut(hosts, sides[0])
			w.run(5*time.Second + 2*DefaultInterval)
			for i, h := range hosts {
				want := sides[0]
				if i >= sides[0] {
					want = sides[1]
				}
				if live, known := h.Live(), h.Known(); live != want || known != n {
					t.Errorf("%s has %d live and %d known 5s into a cut, want %d and %d", h.name, live, known, want, n)
				}
			}
			w.run(time.Second)
			before := o.passed
			w.run(10 * time.Second)
			if during := o.passed - before; during < 950 || during > 1020 {
				t.Errorf("%d passed in 10s of a cut that was noticed, want about 1000", during)
			}
			end()
			w.run(w.twoRounds())
			for _, h := range hosts {
				if live := h.Live(); live != n {
					t.Errorf("%s has %d live two rounds after the cut, want %d", h.name, live, n)
				}
			}
			wantAgreement(t, "after the cut", "k", limit, hosts...)
			left := hosts[0].remaining(t, "k", limit)
			if left < -600 {
				t.Errorf("%d left after the cut, want what 5s of the limit are, and a burst, at the least", left)
			}
			w.run(time.Duration(-left) * 10 * time.Millisecond)
			before = o.passed
			w.run(2 * time.Second)
			if after := o.passed - before; after < 180 || after > 220 {
				t.Errorf("%d passed in 2s when that was repaid, want about 200", after)
			}
		})
	}
}

// A host that stood still itself takes nobody for lost.
func TestGossipHostThatStalledMissesNobody(t *testing.T) {
	t.Parallel()
	w := newGossipWorld(t, 97)
	hosts := w.fleet(3, nil)
	w.run(time.Second)
	hosts[1].stall()
	w.run(time.Minute)
	if live := hosts[0].Live(); live != 2 {
		t.Errorf("%d live while one is stalled, want 2", live)
	}
	hosts[1].clock.stalled = false
	hosts[1].sender.runRound() // before it reads what has come meanwhile
	if live := hosts[1].Live(); live != 3 {
		t.Errorf("%d live for the host that stalled, want 3", live)
	}
	w.run(w.twoRounds())
	for _, h := range hosts {
		if live := h.Live(); live != 3 {
			t.Errorf("%s has %d live two rounds after the stall, want 3", h.name, live)
		}
	}
}
