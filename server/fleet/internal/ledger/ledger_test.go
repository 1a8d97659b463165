package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// modes runs a test as hosts of Async, which hear of keys that they ask for, and as those of Gossip, which hear of all.
func modes(t *testing.T, test func(t *testing.T, asks bool)) {
	for _, asks := range []bool{true, false} {
		t.Run(fmt.Sprintf("asks=%t", asks), func(t *testing.T) { test(t, asks) })
	}
}

func TestThreeHostsThatTakeAllAtOnceCloseForTwoSeconds(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 3, asks, nil)
		limit := headgate.PerSecond(4)
		passed := 0
		for _, h := range all {
			passed += h.take("k", limit, 6)
		}
		if passed != 12 {
			t.Errorf("passed before anybody knew: got %d, want 12", passed)
		}
		shareAll(all...)
		wantRemaining(t, "after sharing", "k", limit, -8, all...)
		clock.Advance(2 * time.Second)
		for _, h := range all {
			if got := h.take("k", limit, 1); got != 0 {
				t.Errorf("%s let pass %d after 2 s, want 0", h.Peer.Name, got)
			}
		}
		wantRemaining(t, "after 2 s", "k", limit, 0, all...)
		clock.Advance(250 * time.Millisecond)
		if got := all[0].take("k", limit, 2); got != 1 {
			t.Errorf("passed when the debt was repaid: got %d, want 1", got)
		}
	})
}

func TestThreeHostsWithinTheLimitKnowThatNothingIsLeft(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		_, all := hosts(t, 3, asks, nil)
		limit := headgate.PerSecond(4)
		all[0].take("k", limit, 1)
		all[1].take("k", limit, 2)
		all[2].take("k", limit, 1)
		shareAll(all...)
		wantRemaining(t, "after sharing", "k", limit, 0, all...)
	})
}

func TestTwoHostsThatBothBeginEmptyOweWhatTheOtherTook(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 2, asks, nil)
		limit := headgate.PerMinute(600)
		all[0].take("k", limit, 600)
		clock.Advance(20 * time.Millisecond)
		all[1].take("k", limit, 600)
		shareAll(all...)
		wantRemaining(t, "after sharing", "k", limit, -600, all...)
	})
}

func TestAnOlderRecordThatIsHeardOfLateIsChargedWhole(t *testing.T) {
	// The second host has told its own before it hears of the first, whose record is a little older.
	clock, all := hosts(t, 2, true, nil)
	limit := headgate.PerHour(400)
	all[0].take("k", limit, 400)
	clock.Advance(time.Millisecond)
	all[1].take("k", limit, 400)
	clock.Advance(20 * time.Millisecond)
	told := all[1].Changes(nil, 100)
	clock.Advance(20 * time.Millisecond)
	shareAll(all...)
	all[0].Apply(all[1].Peer, all[1].Uptime(), told)
	wantRemaining(t, "after sharing", "k", limit, -400, all...)
}

func TestANewcomerBesideTwoOldHostsBeginsAtTheirLevel(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 2, asks, nil)
		limit := headgate.Per(1000, 100*time.Second) // 10/s
		for range 1000 {
			all[0].take("k", limit, 10)
			all[1].take("k", limit, 10)
			shareAll(all...)
			clock.Advance(100 * time.Millisecond)
		}
		before := all[0].remaining("k", limit)
		if before > 100 {
			t.Fatalf("the old hosts have %d left, want next to nothing", before)
		}
		clock.Advance(300 * time.Millisecond) // so that each has something to tell
		third := newHost(t, clock, fleet.Peer{Name: "newcomer", Incarnation: 1}, asks, nil)
		third.take("k", limit, 1)
		all[0].take("k", limit, 1)
		all[1].take("k", limit, 1)
		all = append(all, third)
		shareAll(all...)
		got, want := third.remaining("k", limit), all[0].remaining("k", limit)
		if got > want+2 || got < want-2 {
			t.Errorf("remaining on the newcomer: got %d, want %d as on the others, or 2 off", got, want)
		}
	})
}

func TestNewNodesEarlyConsumptionAddsToItsPeersDebt(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 2, asks, nil)
		old, limit := all[0], headgate.PerMinute(60)
		old.take("k", limit, 60)
		for range 30 {
			shareAll(all...)
			clock.Advance(100 * time.Millisecond)
		}
		third := newHost(t, clock, fleet.Peer{Name: "newcomer", Incarnation: 1}, asks, nil)
		if got := third.take("k", limit, 60); got != 60 {
			t.Fatalf("passed on the newcomer: got %d, want 60", got)
		}
		letter, uptime := old.Tallies(nil, []tally.Key{hashOf(t, old, "k", limit)}), old.Uptime()
		shareAll(old, third)
		third.Apply(old.Peer, uptime, letter)
		wantRemaining(t, "after sharing", "k", limit, 60-117, old, third)
		// Peers that it hears from again know its units, and nothing counts twice.
		for range 20 {
			clock.Advance(100 * time.Millisecond)
			shareAll(old, third)
			third.Apply(old.Peer, old.Uptime(), old.Tallies(nil, []tally.Key{hashOf(t, old, "k", limit)}))
		}
		wantRemaining(t, "2 s later", "k", limit, 60-115, old, third)
	})
}

func TestWhatANewcomerConsumedIsNotAddedToALevelThatContainsIt(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 2, asks, nil)
		old, limit := all[0], headgate.PerMinute(60)
		old.take("k", limit, 60)
		shareAll(all...)
		clock.Advance(3 * time.Second)
		third := newHost(t, clock, fleet.Peer{Name: "newcomer", Incarnation: 1}, asks, nil)
		third.take("k", limit, 60)
		old.Apply(third.Peer, third.Uptime(), third.Changes(nil, 10))
		clock.Advance(time.Second)
		third.Apply(old.Peer, old.Uptime(), old.Tallies(nil, []tally.Key{hashOf(t, old, "k", limit)}))
		wantRemaining(t, "after it heard of who had heard of it", "k", limit, 60-116, old, third)
	})
}

func hashOf(t testing.TB, h *host, key string, l headgate.Limit) tally.Key {
	t.Helper()
	k, err := h.KeyOf(headgate.Check{Key: key, Limit: l})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestTalliesThatComeTwiceOrInAnyOrderAddNothing(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		rng := rand.New(rand.NewPCG(1, 2))
		for range 50 {
			clock, all := hosts(t, 3, asks, nil)
			limit := headgate.PerHour(1000)
			for _, h := range all {
				h.take("k", limit, 1)
			}
			type letter struct {
				from   *host
				uptime time.Duration
				tally  tally.Tally
			}
			var letters []letter
			taken := 3
			for range 20 {
				h := all[rng.IntN(3)]
				taken += h.take("k", limit, 1+rng.IntN(5))
				clock.Advance(time.Microsecond)
				for _, tally := range h.Changes(nil, 10) {
					letters = append(letters, letter{h, h.Uptime(), tally})
				}
			}
			for _, h := range all {
				for _, tally := range h.Changes(nil, 10) {
					letters = append(letters, letter{h, h.Uptime(), tally})
				}
			}
			for _, h := range all {
				mine := append(append([]letter(nil), letters...), letters...)
				rng.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
				for _, l := range mine {
					if l.from != h {
						h.Apply(l.from.Peer, l.uptime, []tally.Tally{l.tally})
					}
				}
			}
			wantRemaining(t, "after all was heard", "k", limit, int64(1000-taken), all...)
		}
	})
}

func TestANewIncarnationBeginsAtZero(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 2, asks, nil)
		limit := headgate.PerHour(100)
		all[0].take("k", limit, 10)
		all[1].take("k", limit, 10)
		shareAll(all...)
		clock.Advance(time.Second)
		again := newHost(t, clock, fleet.Peer{Name: all[1].Peer.Name, Incarnation: 2}, asks, nil)
		again.take("k", limit, 5)
		all[0].take("k", limit, 1)
		shareAll(all[0], again)
		wantRemaining(t, "after the restart", "k", limit, 100-26, all[0])
	})
}

func TestMoreHostsThanADebtCanHoldRepayAllTheSame(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		const n, burst = 30, 10
		clock, all := hosts(t, n, asks, nil)
		limit := headgate.PerSecond(burst)
		for _, h := range all {
			if got := h.take("k", limit, burst); got != burst {
				t.Fatalf("passed: got %d, want %d", got, burst)
			}
		}
		shareAll(all...)
		wantRemaining(t, "after sharing", "k", limit, -(n-1)*burst, all...)
		for second := 1; second < n; second++ {
			clock.Advance(time.Second)
			wantRemaining(t, fmt.Sprintf("after %d s", second), "k", limit, -int64(n-1-second)*burst, all...)
		}
		clock.Advance(100 * time.Millisecond)
		if got := all[n-1].take("k", limit, 2); got != 1 {
			t.Errorf("passed when the debt was repaid: got %d, want 1", got)
		}
	})
}

func TestHostsWithinTheLimitAreNotDeniedWhenSyncIsRare(t *testing.T) {
	for _, every := range []time.Duration{100 * time.Millisecond, time.Second, 20 * time.Second} {
		t.Run(every.String(), func(t *testing.T) {
			modes(t, func(t *testing.T, asks bool) {
				clock, all := hosts(t, 4, asks, func(o *fleet.LedgerOptions) { o.Idle, o.Lag = 2*time.Minute, 2*every })
				limit := headgate.Limit{Count: 100, Period: time.Second, Burst: 20}
				const step = 50 * time.Millisecond // each takes 1 in it: 80/s together
				asked, passed := 0, 0
				for at := time.Duration(0); at < 30*time.Second+4*every; at += step {
					for _, h := range all {
						asked++
						passed += h.take("k", limit, 1)
					}
					if at%every == 0 {
						shareAll(all...)
					}
					clock.Advance(step)
				}
				if passed < asked*99/100 {
					t.Errorf("passed %d of %d that were within the limit, want 99 %%", passed, asked)
				}
			})
		})
	}
}

func TestHostsThatEachUseTheWholeLimitAreHeldToItTogether(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 4, asks, nil)
		limit := headgate.Limit{Count: 100, Period: time.Second, Burst: 20}
		const every, total = 100 * time.Millisecond, 2 * time.Minute
		passed := 0
		for at := time.Duration(0); at < total; at += 10 * time.Millisecond {
			for _, h := range all {
				passed += h.take("k", limit, 1) // 100/s each
			}
			if at%every == 0 {
				shareAll(all...)
			}
			clock.Advance(10 * time.Millisecond)
		}
		most := 20 + int(total.Seconds())*100
		if over := 3 * (20 + 10); passed > most+over {
			t.Errorf("passed %d, want at most %d and %d over", passed, most, over)
		}
		if passed < most*98/100 {
			t.Errorf("passed %d, want 98 %% of %d", passed, most)
		}
	})
}
