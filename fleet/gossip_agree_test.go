package fleet

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// twoRounds is how long two rounds take at most, and the way of their packets.
func (w *gossipWorld) twoRounds() time.Duration {
	return 2*DefaultGossipInterval*11/10 + 2*(w.delay+w.delay/5) + time.Millisecond
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
			d, err := hosts[1].Take(t.Context(), hosts[1].check("k", limit, 5))
			if err != nil || !d.Allowed {
				t.Errorf("a take on the host that stalled: got %+v, %v, want it allowed", d, err)
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

// cut parts the first n hosts from the others. Half of the time they notice.
func (w *gossipWorld) cut(hosts []*worldHost, n int) (end func() []*worldHost) {
	side := map[string]bool{}
	for _, h := range hosts[:n] {
		side[h.name] = true
	}
	w.severs = func(a, b string) bool { return side[a] != side[b] }
	tell := func(f func(to *worldHost, of string)) {
		w.tellAll(hosts, func(to *worldHost, of string) {
			if side[to.name] != side[of] {
				f(to, of)
			}
		})
	}
	noticed := w.random.IntN(2) == 0
	if noticed {
		tell(func(to *worldHost, of string) { to.mesh.to.Lost(of) })
	}
	return func() []*worldHost {
		w.severs = func(string, string) bool { return false }
		if noticed {
			tell(func(to *worldHost, of string) { to.mesh.to.Joined(of) })
		}
		return hosts
	}
}

// Whatever was in the way, and however much each host takes: two rounds after it has ended all hosts have the same left, and
// a client that comes back when it was told to passes.
func TestGossipHostsAgreeTwoRoundsAfterADisturbance(t *testing.T) {
	t.Parallel()
	for _, dis := range disturbances {
		t.Run(dis.name, func(t *testing.T) {
			for seed := range uint64(60) {
				w := newGossipWorld(t, 1000+seed)
				w.delay = time.Millisecond
				limit := headgate.Limit{Count: 2 + w.random.Int64N(100), Period: time.Second, Burst: 5 + w.random.Int64N(200)}
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
					w.run(d.RetryAfter + time.Millisecond)
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

// loads has hosts take of a key until stop is called, each as much as chance says: nothing, a part of the limit, or more than it.
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
		for _, noticed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d hosts, noticed %t", n, noticed), func(t *testing.T) {
				w := newGossipWorld(t, 93)
				w.delay = time.Millisecond
				hosts := w.fleet(n, nil)
				o := &offer{key: "k", limit: limit, rate: 15}
				stop := w.offer(o, hosts)
				w.run(3 * time.Second)
				w.random = rand.New(rand.NewPCG(map[bool]uint64{true: 2, false: 1}[noticed], 1))
				end := w.cut(hosts, n/2)
				w.run(30 * time.Second)
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

// Under partition: share, sides that use up their shares owe nothing when they hear of each other again.
func TestGossipSharesAreNotOwedAfterACut(t *testing.T) {
	t.Parallel()
	w := newGossipWorld(t, 95)
	w.delay, w.sharing = time.Millisecond, true
	hosts := w.fleet(5, nil)
	o := &offer{key: "k", limit: headgate.MustParseLimit("100/s burst 100"), rate: 400}
	w.offer(o, hosts)
	w.run(5 * time.Second)
	w.random = rand.New(rand.NewPCG(2, 1)) // it is noticed
	end := w.cut(hosts, 3)
	before := o.passed
	w.run(30 * time.Second)
	if during := o.passed - before; during < 2600 || during > 3100 {
		t.Errorf("%d passed in 30s of a cut, want about 3000", during)
	}
	end()
	w.run(w.twoRounds())
	before = o.passed
	w.run(2 * time.Second)
	if after := o.passed - before; after < 150 {
		t.Errorf("%d passed in 2s after the cut, want about 200", after)
	}
}
