//go:build !race

package gossip

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// Hosts that join late know what was consumed before, whomever they join and whatever that one knows.
func TestGossipHostsThatJoinLateKnowEarlierConsumption(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"20/h fixed-window", "20/h", "20/h sliding-window"} {
		limit := headgate.MustParseLimit(text)
		for _, tt := range []struct {
			name string
			// join starts the second and the third host beside the first, which has used up the limit.
			join func(w *gossipWorld, a *worldHost) (b, c *worldHost)
		}{
			{"each joins the first", func(w *gossipWorld, a *worldHost) (b, c *worldHost) {
				b = w.hostVia("b", []*worldHost{a}, nil)
				w.run(2 * time.Second)
				return b, w.hostVia("c", []*worldHost{a}, nil)
			}},
			{"the third joins the second", func(w *gossipWorld, a *worldHost) (b, c *worldHost) {
				b = w.hostVia("b", []*worldHost{a}, nil)
				w.run(2 * time.Second)
				return b, w.hostVia("c", []*worldHost{b}, nil)
			}},
			{"the third joins the second, which knows nothing", func(w *gossipWorld, a *worldHost) (b, c *worldHost) {
				b = w.hostVia("b", nil, nil)
				return b, w.hostVia("c", []*worldHost{b}, nil)
			}},
			{"both are cut off from the first when they join", func(w *gossipWorld, a *worldHost) (b, c *worldHost) {
				w.severs = func(x, y string) bool { return (x == a.name) != (y == a.name) }
				b = w.hostVia("b", nil, nil)
				w.run(10 * time.Second)
				c = w.hostVia("c", []*worldHost{b}, nil)
				w.run(10 * time.Second)
				w.severs = func(string, string) bool { return false }
				return b, c
			}},
			{"the first is stalled when they join", func(w *gossipWorld, a *worldHost) (b, c *worldHost) {
				a.stall()
				b = w.hostVia("b", nil, nil)
				w.run(3 * time.Second)
				c = w.hostVia("c", []*worldHost{b}, nil)
				a.goOn()
				return b, c
			}},
		} {
			t.Run(fmt.Sprint(text, ", ", tt.name), func(t *testing.T) {
				for seed := range uint64(4) {
					w := newGossipWorld(t, 200+seed)
					w.delay = time.Millisecond
					w.run(time.Minute) // into the window
					a := w.host("a", nil)
					w.run(time.Duration(w.random.IntN(5000)) * time.Millisecond)
					passed := a.take(t, "k", limit, 25)
					w.run(2 * time.Second)
					b, c := tt.join(w, a)
					w.run(w.twoRounds())
					for _, h := range []*worldHost{b, c} {
						passed += h.take(t, "k", limit, 25)
						w.run(2 * time.Second)
					}
					if passed < 20 || passed > 22 {
						t.Errorf("seed %d: passed on three hosts: got %d, want 20 to 22", seed, passed)
					}
				}
			})
		}
	}
}

// What was consumed before a window began counts in it, too: all of it under a sliding window, the excess under a fixed
// window. A host that joins in the window learns of it, also if the consumers have consumed nothing in it.
func TestGossipHostsThatJoinAfterAWindowEndedKnowIt(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"100/m sliding-window", "100/m fixed-window"} {
		limit := headgate.MustParseLimit(text)
		for _, takes := range []int{0, 3} { // of each of the others in the new window
			t.Run(fmt.Sprint(text, ", ", takes), func(t *testing.T) {
				w := newGossipWorld(t, 5)
				w.delay = time.Millisecond
				hosts := w.fleet(3, nil)
				begin := worldStart.Add(w.now).Truncate(time.Minute).Add(2 * time.Minute)
				w.run(begin.Add(-5 * time.Second).Sub(worldStart.Add(w.now)))
				for _, h := range hosts[:2] {
					h.take(t, "k", limit, 100)
				}
				w.run(6 * time.Second)
				for _, h := range hosts {
					h.take(t, "k", limit, takes)
				}
				w.run(w.twoRounds())
				late := w.host("late", nil)
				w.run(w.twoRounds())
				wantAgreement(t, "after the join", "k", limit, append(hosts, late)...)
				if got := late.take(t, "k", limit, 25); got != 0 {
					t.Errorf("passed on the host that joined: got %d, want 0, as 200 were taken before", got)
				}
			})
		}
	}
}
