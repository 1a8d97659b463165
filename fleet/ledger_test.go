package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// modes runs a test as hosts of Async, which hear of keys that they ask for, and as those of Gossip, which hear of all.
func modes(t *testing.T, test func(t *testing.T, asks bool)) {
	for _, asks := range []bool{true, false} {
		t.Run(fmt.Sprintf("asks=%t", asks), func(t *testing.T) { test(t, asks) })
	}
}

func TestThreeHostsThatTakeAllAtOnceOwe8AndStayClosedForTwoSeconds(t *testing.T) {
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

func TestThreeHostsThatTakeWithinTheLimitAllKnowThatNothingIsLeft(t *testing.T) {
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
	all[0].Absorb(all[1].Peer, all[1].Uptime(), told)
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
		third := newHost(t, clock, "newcomer", asks, nil)
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

func TestWhatANewcomerConsumedBeforeItHeardOfTheOthersIsADebtOnTopOfTheirs(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 2, asks, nil)
		old, limit := all[0], headgate.PerMinute(60)
		old.take("k", limit, 60)
		for range 30 {
			shareAll(all...)
			clock.Advance(100 * time.Millisecond)
		}
		third := newHost(t, clock, "newcomer", asks, nil)
		if got := third.take("k", limit, 60); got != 60 {
			t.Fatalf("passed on the newcomer: got %d, want 60", got)
		}
		letter, uptime := old.Tallies(nil, []Key{hashOf(t, old, "k", limit)}), old.Uptime()
		shareAll(old, third)
		third.Absorb(old.Peer, uptime, letter)
		wantRemaining(t, "after sharing", "k", limit, 60-117, old, third)
		// Whoever it hears of again has heard of it, and nothing counts twice.
		for range 20 {
			clock.Advance(100 * time.Millisecond)
			shareAll(old, third)
			third.Absorb(old.Peer, old.Uptime(), old.Tallies(nil, []Key{hashOf(t, old, "k", limit)}))
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
		third := newHost(t, clock, "newcomer", asks, nil)
		third.take("k", limit, 60)
		old.Absorb(third.Peer, third.Uptime(), third.Changes(nil, 10))
		clock.Advance(time.Second)
		third.Absorb(old.Peer, old.Uptime(), old.Tallies(nil, []Key{hashOf(t, old, "k", limit)}))
		wantRemaining(t, "after it heard of who had heard of it", "k", limit, 60-116, old, third)
	})
}

func hashOf(t testing.TB, h *host, key string, l headgate.Limit) Key {
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
				tally  Tally
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
						h.Absorb(l.from.Peer, l.uptime, []Tally{l.tally})
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
		again := newHost(t, clock, all[1].Peer.Name, asks, nil)
		again.Incarnation = 2
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

func TestHostsWithinTheLimitTogetherAreNotDeniedHoweverSeldomTheyTalk(t *testing.T) {
	for _, every := range []time.Duration{100 * time.Millisecond, time.Second, 20 * time.Second} {
		t.Run(every.String(), func(t *testing.T) {
			modes(t, func(t *testing.T, asks bool) {
				clock, all := hosts(t, 4, asks, func(o *LedgerOptions) { o.Idle, o.Lag = 2*time.Minute, 2*every })
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

func TestWhatIsGivenBackBeforeItWasToldIsNeverTold(t *testing.T) {
	_, all := hosts(t, 2, false, nil)
	limit := headgate.PerHour(100)
	a, b := all[0], all[1]
	d := takeN(t, a, "k", limit, 30)
	give(t, a, "k", limit, 20, d.Receipt)
	shareAll(all...)
	wantRemaining(t, "after giving back what was not told", "k", limit, 90, a, b)
}

func TestWhatIsGivenBackAfterItWasToldIsMadeGoodByTheNextTakes(t *testing.T) {
	_, all := hosts(t, 2, false, nil)
	limit := headgate.PerHour(100)
	a, b := all[0], all[1]
	d := takeN(t, a, "k", limit, 30)
	shareAll(all...)
	give(t, a, "k", limit, 20, d.Receipt)
	shareAll(all...)
	wantRemaining(t, "on the host that gave back", "k", limit, 90, a)
	wantRemaining(t, "on the other, as totals don't fall", "k", limit, 70, b)
	takeN(t, a, "k", limit, 25)
	shareAll(all...)
	wantRemaining(t, "after the next takes", "k", limit, 65, a, b)
}

func takeN(t *testing.T, h *host, key string, l headgate.Limit, n int64) headgate.Decision {
	t.Helper()
	d, err := h.Take(context.Background(), headgate.Check{Key: key, Limit: l, Cost: n})
	if err != nil || !d.Allowed {
		t.Fatalf("take %d: got %+v, %v", n, d, err)
	}
	return d
}

func give(t *testing.T, h *host, key string, l headgate.Limit, n int64, r headgate.Receipt) {
	t.Helper()
	if err := h.Give(context.Background(), headgate.Check{Key: key, Limit: l, Cost: n}, r); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsChargedIsToldToo(t *testing.T) {
	_, all := hosts(t, 2, false, nil)
	limit := headgate.PerHour(100)
	if _, err := all[0].Charge(context.Background(), headgate.Check{Key: "k", Limit: limit, Cost: 250}); err != nil {
		t.Fatal(err)
	}
	shareAll(all...)
	wantRemaining(t, "after a charge", "k", limit, -150, all...)
}

func TestAResetReachesAllHosts(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 3, asks, nil)
		limit := headgate.PerHour(100)
		for _, h := range all {
			h.take("k", limit, 60)
		}
		shareAll(all...)
		wantRemaining(t, "before", "k", limit, -80, all...)
		clock.Advance(time.Second)
		if err := all[0].Reset(context.Background(), headgate.Check{Key: "k", Limit: limit}); err != nil {
			t.Fatal(err)
		}
		shareAll(all...)
		wantRemaining(t, "after", "k", limit, 100, all...)
		all[0].take("k", limit, 1)
		all[1].take("k", limit, 2)
		shareAll(all...)
		wantRemaining(t, "after that", "k", limit, 97, all...)
	})
}

func TestNewsOfAWindowThatIsOverDoesNotCount(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 2, asks, nil)
		limit := headgate.Limit{Algorithm: headgate.FixedWindow, Count: 10, Period: time.Minute}
		all[1].take("k", limit, 1)
		clock.Advance(59990 * time.Millisecond)
		all[0].take("k", limit, 10)
		clock.Advance(20 * time.Millisecond)
		all[1].take("k", limit, 1)
		shareAll(all...)
		wantRemaining(t, "in the next window", "k", limit, 9, all...)
		all[0].take("k", limit, 2)
		shareAll(all...)
		wantRemaining(t, "in the next window, later", "k", limit, 7, all...)
	})
}

func TestNewsThatWasUnderWayWhenItsWindowEndedDoesNotCount(t *testing.T) {
	clock, all := hosts(t, 2, false, nil)
	limit := headgate.Limit{Algorithm: headgate.FixedWindow, Count: 10, Period: time.Minute}
	all[1].take("k", limit, 1)
	clock.Advance(59990 * time.Millisecond)
	all[0].take("k", limit, 10)
	told, uptime := all[0].Changes(nil, 10), all[0].Uptime()
	clock.Advance(20 * time.Millisecond)
	all[1].Absorb(all[0].Peer, uptime, told)
	wantRemaining(t, "in the next window", "k", limit, 10, all[1])
}

func TestADebtGoesWithItsWindowHoweverDeep(t *testing.T) {
	clock, all := hosts(t, 30, false, nil)
	limit := headgate.Limit{Algorithm: headgate.FixedWindow, Count: 10, Period: time.Minute}
	for _, h := range all {
		h.take("k", limit, 10)
	}
	shareAll(all...)
	if got := all[0].remaining("k", limit); got > -100 {
		t.Errorf("remaining when all is known: got %d, want a deep debt", got)
	}
	clock.Advance(time.Minute)
	wantRemaining(t, "in the next window", "k", limit, 10, all...)
}

func TestNewsOfAWindowThatHasNotBegunHereCountsWhenItHas(t *testing.T) {
	_, all := hosts(t, 1, false, nil)
	ahead := newHost(t, &handClock{}, "ahead", false, nil)
	limit := headgate.Limit{Algorithm: headgate.FixedWindow, Count: 10, Period: time.Minute}
	behind := all[0]
	behind.clock.Advance(59980 * time.Millisecond)
	ahead.clock.Advance(60001 * time.Millisecond)
	behind.take("k", limit, 1)
	ahead.take("k", limit, 4)
	behind.Absorb(ahead.Peer, ahead.Uptime(), ahead.Changes(nil, 10))
	wantRemaining(t, "in the old window", "k", limit, 9, behind)
	behind.clock.Advance(20 * time.Millisecond)
	wantRemaining(t, "in the new one", "k", limit, 6, behind)
}

func TestNewsOfThePreviousSlidingWindowStillWeighs(t *testing.T) {
	clock, all := hosts(t, 2, false, nil)
	limit := headgate.Limit{Algorithm: headgate.SlidingWindow, Count: 100, Period: time.Minute}
	clock.Advance(59 * time.Second)
	all[0].take("k", limit, 80)
	letters := all[0].Changes(nil, 10)
	uptime := all[0].Uptime()
	clock.Advance(16 * time.Second) // a quarter into the next
	all[1].take("k", limit, 10)
	all[1].Absorb(all[0].Peer, uptime, letters)
	wantRemaining(t, "with three quarters of what the other took", "k", limit, 100-60-10, all[1])
	shareAll(all...)
	wantRemaining(t, "on both", "k", limit, 30, all...)
}

func TestAStaggeredWindowIsTheSameOnAHostThatOnlyHeardOfIt(t *testing.T) {
	clock, all := hosts(t, 2, false, nil)
	limit := headgate.Limit{Algorithm: headgate.FixedWindow, Count: 10, Period: time.Hour, Staggered: true}
	for range 24 {
		clock.Advance(10 * time.Minute)
		all[0].take("k", limit, 1)
		shareAll(all...)
		if got, want := all[1].remaining("k", limit), all[0].remaining("k", limit); got != want {
			t.Fatalf("remaining where it was heard of: got %d, want %d", got, want)
		}
	}
}

func TestKeysThatAreNotSharedAreCountedByEachHost(t *testing.T) {
	_, all := hosts(t, 2, true, nil)
	limit := headgate.Limit{Algorithm: headgate.SlidingLog, Count: 10, Period: time.Minute}
	all[0].take("k", limit, 3)
	if told := all[0].Changes(nil, 10); len(told) != 0 {
		t.Errorf("told %v of a limit that is not shared", told)
	}
	wantRemaining(t, "here", "k", limit, 7, all[0])
	wantRemaining(t, "there", "k", limit, 10, all[1])
}

func TestTheHottestAreToldFirstAndTheOthersInTheirTurn(t *testing.T) {
	_, all := hosts(t, 1, false, nil)
	h := all[0]
	limit := headgate.PerHour(1000)
	for i := range 200 {
		h.take(fmt.Sprint("cold ", i), limit, 1)
	}
	hot := map[Key]bool{}
	for i := range 8 {
		h.take(fmt.Sprint("hot ", i), limit, 500)
		key, err := h.KeyOf(headgate.Check{Key: fmt.Sprint("hot ", i), Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		hot[key] = true
	}
	first := h.Changes(nil, 16)
	if len(first) != 16 {
		t.Fatalf("told %d, want 16", len(first))
	}
	for i, tally := range first[:8] {
		if !hot[tally.Key] || tally.Total != 500 {
			t.Errorf("tally %d: got total %d, want one of the hot", i, tally.Total)
		}
	}
	// The hot stay hot, and take all places but an eighth; still all get their turn.
	told := map[Key]bool{}
	for range 200 {
		for i := range 8 {
			h.take(fmt.Sprint("hot ", i), limit, 2)
		}
		for _, tally := range h.Changes(nil, 8) {
			told[tally.Key] = true
		}
	}
	if len(told) < 190 {
		t.Errorf("told of %d keys, want nearly all 208", len(told))
	}
}

func TestWhatCouldNotBeToldIsToldAgain(t *testing.T) {
	_, all := hosts(t, 1, false, nil)
	h := all[0]
	limit := headgate.PerHour(100)
	h.take("k", limit, 5)
	lost := h.Changes(nil, 10)
	if len(lost) != 1 || len(h.Changes(nil, 10)) != 0 {
		t.Fatalf("changes: got %v, want one, once", lost)
	}
	h.Retell(lost)
	again := h.Changes(nil, 10)
	if len(again) != 1 || again[0].Total != 5 {
		t.Errorf("told again: got %v, want the same", again)
	}
}

func TestAHostThatLiesIsNotBelievedAndReported(t *testing.T) {
	type refusal struct {
		from Peer
		why  string
	}
	for _, tt := range []struct {
		name string
		lie  func(t *Tally)
		why  string
		left int64 // of 100
	}{
		{"a total that falls", func(t *Tally) { t.Total = 5 }, whyFell, 89},
		{"a total below zero", func(t *Tally) { t.Total = -1 }, "a negative total", 89},
		{"a level below zero", func(t *Tally) { t.Level = -1 }, "a negative level", 89},
		{"a record from the future", func(t *Tally) { t.Start = 100 * time.Hour }, "a record from the future", 89},
		{"a total that leaps", func(t *Tally) { t.Total = 1 << 60 }, whyLeaped, 89 - 1000},
		{"no such limit", func(t *Tally) { t.Key[3]++; t.Limit.Count = -3 }, whyNoLimit, 89},
		{"a limit that is not shared", func(t *Tally) { t.Key[3]++; t.Limit = headgate.InFlight(3) }, whyNoLimit, 89},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var refused []refusal
			clock, all := hosts(t, 2, false, func(o *LedgerOptions) {
				o.OnRefused = func(from Peer, _ Tally, why string) { refused = append(refused, refusal{from, why}) }
			})
			clock.Advance(time.Second)
			limit := headgate.PerHour(100)
			all[0].take("k", limit, 1)
			all[1].take("k", limit, 10)
			honest := all[1].Changes(nil, 10)
			all[0].Absorb(all[1].Peer, all[1].Uptime(), honest)
			lie := honest[0]
			tt.lie(&lie)
			all[0].Absorb(all[1].Peer, all[1].Uptime(), []Tally{lie})
			wantRemaining(t, "after the lie", "k", limit, tt.left, all[0])
			if len(refused) != 1 || refused[0] != (refusal{all[1].Peer, tt.why}) {
				t.Errorf("refused: got %v, want %v of %v", refused, tt.why, all[1].Peer)
			}
			if got := all[0].Stats().Refused; got != 1 {
				t.Errorf("Stats.Refused: got %d, want 1", got)
			}
		})
	}
}

func TestReportsOfLiesAreFew(t *testing.T) {
	reports := 0
	clock, all := hosts(t, 1, false, func(o *LedgerOptions) { o.OnRefused = func(Peer, Tally, string) { reports++ } })
	clock.Advance(time.Second)
	for range 1000 {
		all[0].Absorb(Peer{Name: "liar"}, time.Second, []Tally{{Total: -1}})
		clock.Advance(2500 * time.Microsecond)
	}
	if reports < 2 || reports > 4 {
		t.Errorf("reports within 2.5 s: got %d, want about 3", reports)
	}
	if got := all[0].Stats().Refused; got != 1000 {
		t.Errorf("Stats.Refused: got %d, want 1000", got)
	}
}

func TestMembersAreSharesOfALimit(t *testing.T) {
	m := &fakeMembers{live: 3, known: 4}
	clock, all := hosts(t, 1, false, func(o *LedgerOptions) { o.Members = m })
	h := all[0]
	check := func(p headgate.Partition, want int64) {
		t.Helper()
		d, err := h.Take(context.Background(), headgate.Check{Key: "k", Limit: headgate.PerHour(100), Partition: p})
		if err != nil || d.Limit != want {
			t.Errorf("partition %v with %d of %d: got limit %d, %v, want %d", p, m.live, m.known, d.Limit, err, want)
		}
	}
	check(headgate.PartitionFull, 100)
	check(headgate.PartitionShare, 75)
	m.live = 4
	clock.Advance(time.Second)
	check(headgate.PartitionShare, 100)
	m.live, m.known = 1, 1000
	clock.Advance(time.Second)
	check(headgate.PartitionShare, 1)
	if _, err := h.Take(context.Background(), headgate.Check{Key: "k", Limit: headgate.PerHour(1), Partition: 7}); !errors.Is(err, headgate.ErrInvalidCheck) {
		t.Errorf("an unknown partition: got %v, want ErrInvalidCheck", err)
	}
}

type fakeMembers struct{ live, known int }

func (m *fakeMembers) Live() int  { return m.live }
func (m *fakeMembers) Known() int { return m.known }

func TestPoliciesApplyWhileOthersAreAway(t *testing.T) {
	_, all := hosts(t, 1, false, func(o *LedgerOptions) { o.Members = &fakeMembers{4, 4} })
	h := all[0]
	safe := headgate.PerHour(7)
	window := headgate.Limit{Algorithm: headgate.FixedWindow, Count: 5, Period: time.Hour}
	h.SetAway(true, 300*time.Millisecond)
	for _, tt := range []struct {
		name  string
		check headgate.Check
		limit int64
		open  bool
	}{
		{"open", headgate.Check{OnFailure: headgate.Open}, 100, true},
		{"local", headgate.Check{OnFailure: headgate.Local}, 25, true},
		{"safe", headgate.Check{OnFailure: headgate.Local, Safe: &safe}, 7, true},
		{"safe of another kind", headgate.Check{OnFailure: headgate.Local, Safe: &window}, 5, true},
		{"closed", headgate.Check{OnFailure: headgate.Closed}, 100, false},
	} {
		tt.check.Key, tt.check.Limit, tt.check.Cost = tt.name, headgate.PerHour(100), 1
		d, err := h.Take(context.Background(), tt.check)
		if err != nil || d.Allowed != tt.open || d.Limit != tt.limit || !d.Degraded {
			t.Errorf("%s: got %+v, %v, want allowed=%t limit=%d degraded", tt.name, d, err, tt.open, tt.limit)
		}
		if !tt.open && d.RetryAfter != 300*time.Millisecond {
			t.Errorf("%s: got retry after %v, want 300ms", tt.name, d.RetryAfter)
		}
		if tt.open {
			if err := h.Give(context.Background(), tt.check, d.Receipt); err != nil {
				t.Fatal(err)
			}
			tt.check.Cost = 0
			if d, err := h.Take(context.Background(), tt.check); err != nil || d.Remaining != tt.limit {
				t.Errorf("%s: after giving back: got %d left, %v, want %d", tt.name, d.Remaining, err, tt.limit)
			}
		}
		dst, err := h.TakeAll(context.Background(), []headgate.Check{tt.check, {Key: "another", Limit: headgate.PerHour(3), Cost: 1}}, nil)
		if err != nil || headgate.Allowed(dst) != tt.open {
			t.Errorf("%s: TakeAll: got %+v, %v, want allowed=%t", tt.name, dst, err, tt.open)
		}
		_ = h.Reset(context.Background(), headgate.Check{Key: "another"})
	}
	h.SetAway(false, 0)
	d, err := h.Take(context.Background(), headgate.Check{Key: "closed", Limit: headgate.PerHour(100), OnFailure: headgate.Closed, Cost: 1})
	if err != nil || !d.Allowed || d.Degraded {
		t.Errorf("when others are back: got %+v, %v, want allowed and not degraded", d, err)
	}
}

func TestALocalCapBoundsWhatOneHostDoesAlone(t *testing.T) {
	clock, all := hosts(t, 2, false, func(o *LedgerOptions) { o.LocalCap = 30 })
	limit := headgate.PerSecond(100)
	if got := all[0].take("k", limit, 100); got != 30 {
		t.Errorf("passed at once: got %d, want 30", got)
	}
	clock.Advance(time.Second)
	if got := all[0].take("k", limit, 100); got != 30 {
		t.Errorf("passed after a second: got %d, want 30", got)
	}
	// What others took does not count against the cap, only against the limit.
	all[1].take("k", limit, 30)
	shareAll(all...)
	wantRemaining(t, "on the host that took all it may", "k", limit, 0, all[0])
	if d, err := all[0].Take(context.Background(), headgate.Check{Key: "k", Limit: limit, Cost: 31}); err != nil || d.Allowed || d.RetryAfter != headgate.Never {
		t.Errorf("a cost above the cap: got %+v, %v, want never", d, err)
	}
}
