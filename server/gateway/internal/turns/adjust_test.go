package turns

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimitFollowsTheUseOfTheCores(t *testing.T) {
	limit := perCore * runtime.GOMAXPROCS(0)
	var q Queue
	for i, step := range []struct {
		busy float64
		want int
	}{
		{0, 0},
		{busyShare - 0.01, 0},
		{busyShare, limit},
		{busyShare - 0.01, limit},
		{1, limit},
		{idleShare - 0.01, limit},
		{idleShare, limit},
		{0, limit},
		{0, 0},
		{1, limit}, // at once, since nothing waited when the last limit ended
	} {
		q.Adjust(step.busy)
		if got := q.Stats().Limit; got != step.want {
			t.Errorf("step %d: limit %d after a share of %v, want %d", i, got, step.busy, step.want)
		}
	}
}

func TestLimitThatLeavesCoresIdleIsDoubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(1)
		slow, other := usedTurn(), usedTurn()
		slow.Begin(q)
		otherBegins := begin(q, &other)
		for range maxIdle {
			q.Adjust(idleShare - 0.01)
		}
		if got := q.Stats().Limit; got != 2 || !returned(otherBegins) {
			t.Errorf("limit %d, want 2, and the waiting connection to have a turn", got)
		}
		slow.End(q)
		other.End(q)
	})
}

func TestRaisedLimitFallsWhileCoresAreBusy(t *testing.T) {
	least := perCore * runtime.GOMAXPROCS(0)
	q := bounded(4 * least)
	for last := 4 * least; last > least; last = q.Stats().Limit {
		q.Adjust(1)
		if got := q.Stats().Limit; got >= last || got < least {
			t.Fatalf("limit %d after %d, want a lower one that is at least %d", got, last, least)
		}
	}
	q.Adjust(1)
	if got := q.Stats().Limit; got != least {
		t.Errorf("limit %d, want it to stay %d", got, least)
	}
}

func TestLargestLimitThatLeavesCoresIdleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(perCore * runtime.GOMAXPROCS(0) << maxRaises)
		q.active = q.limit
		waiting := usedTurn()
		begins := begin(q, &waiting)
		for range maxIdle {
			q.Adjust(idleShare - 0.01)
		}
		if !returned(begins) || q.Stats().Limit != 0 {
			t.Errorf("got %+v, want no limit: it has left cores idle", q.Stats())
		}
		q.Adjust(1)
		if got := q.Stats().Limit; got != 0 {
			t.Errorf("limit %d at once after one that has left cores idle, want none", got)
		}
		time.Sleep(freeTime)
		q.Adjust(1)
		if q.Stats().Limit == 0 {
			t.Errorf("no limit %v later, want one", freeTime)
		}
		waiting.End(q)
	})
}

// slowTurn returns the turn of a connection whose last request was slow.
func slowTurn(q *Queue) Turn {
	t := usedTurn()
	t.Begin(q)
	time.Sleep(quickTime + 1)
	t.End(q)
	return t
}

func TestSlowConnectionsThatKeepCoresBusyTakeTurnsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(1)
		turn := slowTurn(q)
		for round, calls := range []int{firstRound, 2 * firstRound, 4 * firstRound} {
			for q.bypassed < calls-1 {
				q.Adjust(1)
			}
			if !turn.needsNone(q) {
				t.Errorf("round %d: a slow connection needs a turn after %d calls of Adjust, want after %d", round, calls-1, calls)
			}
			turn.Begin(q) // in the old round
			time.Sleep(quickTime + 1)
			q.Adjust(1)
			turn.End(q)
			if turn.needsNone(q) {
				t.Errorf("round %d: a slow connection needs no turn after %d calls of Adjust with busy cores", round, calls)
			}
			turn = slowTurn(q) // it competed with requests of the old round
			q.Adjust(1)
			if turn.needsNone(q) {
				t.Errorf("round %d: a connection that was slow at once needs no turn, want it to be measured again", round)
			}
			turn = slowTurn(q)
		}
	})
}

func TestRoundsAreShortAgainAfterConnectionsHaveWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(1)
		q.nextRound = 2 * firstRound
		holder, waiting := usedTurn(), usedTurn()
		holder.Begin(q)
		q.active = perCore * runtime.GOMAXPROCS(0) // so that the limit of Adjust is reached
		begins := begin(q, &waiting)
		for range firstRound {
			q.Adjust(1)
		}
		if returned(begins) || q.bypassed != 0 || q.nextRound != firstRound {
			t.Errorf("bypassed %d, next round after %d calls of Adjust; want 0 and %d", q.bypassed, q.nextRound, firstRound)
		}
		for range maxIdle {
			q.Adjust(idleShare - 0.01)
		}
		if !returned(begins) {
			t.Fatal("the connection waits although the limit was raised")
		}
		waiting.End(q)
		holder.End(q)
	})
}
