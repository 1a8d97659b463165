package ledger

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
)

func TestAnUpdateOfAPastWindowCountsOnlyIfItIsExcess(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 2, asks, nil)
		limit := headgate.Limit{Algorithm: headgate.FixedWindow, Count: 10, Period: time.Minute}
		all[1].take("k", limit, 1)
		clock.Advance(59990 * time.Millisecond)
		all[0].take("k", limit, 10)
		clock.Advance(20 * time.Millisecond)
		all[1].take("k", limit, 1)
		shareAll(all...)
		wantRemaining(t, "in the next window, with the eleventh of the last", "k", limit, 8, all...)
		all[0].take("k", limit, 2)
		shareAll(all...)
		wantRemaining(t, "in the next window, later", "k", limit, 6, all...)
	})
}

func TestUpdateFromAnEndedWindowCountsOnlyItsExcess(t *testing.T) {
	clock, all := hosts(t, 2, false, nil)
	limit := headgate.Limit{Algorithm: headgate.FixedWindow, Count: 10, Period: time.Minute}
	all[1].take("k", limit, 1)
	clock.Advance(59990 * time.Millisecond)
	all[0].take("k", limit, 10)
	told, uptime := all[0].Changes(nil, 10), all[0].Uptime()
	clock.Advance(20 * time.Millisecond)
	all[1].Apply(all[0].Peer, uptime, told)
	wantRemaining(t, "in the next window, of which one is taken by the 11 of the last", "k", limit, 9, all[1])
}

func TestAnUpdateOfAFutureWindowCountsWhenItStarts(t *testing.T) {
	_, all := hosts(t, 1, false, nil)
	ahead := newHost(t, &handClock{}, fleet.Peer{Name: "ahead", Incarnation: 1}, false, nil)
	limit := headgate.Limit{Algorithm: headgate.FixedWindow, Count: 10, Period: time.Minute}
	behind := all[0]
	behind.clock.Advance(59980 * time.Millisecond)
	ahead.clock.Advance(60001 * time.Millisecond)
	behind.take("k", limit, 1)
	ahead.take("k", limit, 4)
	behind.Apply(ahead.Peer, ahead.Uptime(), ahead.Changes(nil, 10))
	wantRemaining(t, "in the old window", "k", limit, 9, behind)
	behind.clock.Advance(20 * time.Millisecond)
	wantRemaining(t, "in the new one", "k", limit, 6, behind)
}

func TestAnUpdateOfThePreviousSlidingWindowHasWeight(t *testing.T) {
	clock, all := hosts(t, 2, false, nil)
	limit := headgate.Limit{Algorithm: headgate.SlidingWindow, Count: 100, Period: time.Minute}
	clock.Advance(59 * time.Second)
	all[0].take("k", limit, 80)
	letters := all[0].Changes(nil, 10)
	uptime := all[0].Uptime()
	clock.Advance(16 * time.Second) // a quarter into the next
	all[1].take("k", limit, 10)
	all[1].Apply(all[0].Peer, uptime, letters)
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
