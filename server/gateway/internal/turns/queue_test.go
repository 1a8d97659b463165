package turns

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// bounded returns a queue with a limit.
func bounded(limit int) *Queue {
	q := &Queue{limit: limit}
	q.limited.Store(true)
	return q
}

// usedTurn returns the turn of a connection that has sent a request before.
func usedTurn() Turn { return Turn{used: true} }

// begin calls Begin in a goroutine. The channel is closed when Begin has returned.
func begin(q *Queue, t *Turn) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		t.Begin(q)
		close(done)
	}()
	synctest.Wait()
	return done
}

func returned(done <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// serve serves one request that takes no time.
func serve(q *Queue, t *Turn) {
	t.Begin(q)
	t.End(q)
}

func TestNothingWaitsWithoutALimit(t *testing.T) {
	var q Queue
	turns := make([]Turn, 10_000)
	for i := range turns {
		turns[i] = usedTurn()
	}
	for i := range turns {
		turns[i].Begin(&q)
	}
	if s := q.Stats(); s.Waits != 0 {
		t.Errorf("got %+v, want no waits", s)
	}
}

func TestConnectionsGetTurnsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(1)
		first, second, third := usedTurn(), usedTurn(), usedTurn()
		first.Begin(q)
		secondBegins, thirdBegins := begin(q, &second), begin(q, &third)
		if returned(secondBegins) || returned(thirdBegins) {
			t.Fatal("a second connection is served above the limit of one")
		}
		first.End(q) // its next request was not seen yet, so it does not keep its turn
		if !returned(secondBegins) || returned(thirdBegins) {
			t.Errorf("second began: %v, third began: %v; want the second only", returned(secondBegins), returned(thirdBegins))
		}
		second.Leave(q)
		if !returned(thirdBegins) {
			t.Error("the turn of a connection that ended was not passed on")
		}
		third.End(q)
		if s := q.Stats(); s.Waiting != 0 || s.Waits != 2 || s.Overdue != 0 || q.active != 0 {
			t.Errorf("got %+v and %d turns, want two waits and nothing left", s, q.active)
		}
	})
}

func TestAPromptConnectionKeepsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(1)
		prompt, other := usedTurn(), usedTurn()
		serve(q, &prompt)
		prompt.Begin(q)
		otherBegins := begin(q, &other)
		for i := range maxRequests - 1 {
			prompt.End(q)
			time.Sleep(promptTime / 4)
			if returned(otherBegins) {
				t.Fatalf("the turn ended after %d requests, want %d", i+1, maxRequests)
			}
			prompt.Begin(q)
		}
		prompt.End(q)
		if !returned(otherBegins) {
			t.Errorf("the turn did not end after %d requests", maxRequests)
		}
		other.End(q)
	})
}

func TestATurnEndsWhenItsClientPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(1)
		prompt, other := usedTurn(), usedTurn()
		serve(q, &prompt)
		serve(q, &prompt) // is prompt, so it keeps its turn
		otherBegins := begin(q, &other)
		if returned(otherBegins) {
			t.Fatal("a connection that was prompt has lost its turn at once")
		}
		time.Sleep(promptTime + sweepInterval)
		if !returned(otherBegins) {
			t.Errorf("no turn %v after the last request of the other connection", promptTime+sweepInterval)
		}
		other.End(q)
		prompt.Begin(q) // must notice that its turn has ended
		if q.active != 1 {
			t.Errorf("%d turns, want 1", q.active)
		}
		prompt.End(q)
	})
}

func TestALongRequestLosesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(1)
		long, other := usedTurn(), usedTurn()
		long.Begin(q)
		otherBegins := begin(q, &other)
		time.Sleep(maxTime + sweepInterval)
		if !returned(otherBegins) {
			t.Errorf("a request held its turn for more than %v", maxTime)
		}
		long.End(q)
		other.End(q)
		if q.active != 0 {
			t.Errorf("%d turns are left, want 0", q.active)
		}
	})
}

func TestFirstRequestsTakeNoTurns(t *testing.T) {
	q := bounded(1)
	holder := usedTurn()
	holder.Begin(q)
	var fresh Turn
	fresh.Begin(q) // does not wait
	fresh.End(q)
	holder.End(q)
	if s := q.Stats(); s.Active != 0 || s.Waits != 0 {
		t.Errorf("got %+v, want no wait and no turn left", s)
	}
}

func TestIdleConnectionsDoNotKeepTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(1)
		prompt, other := usedTurn(), usedTurn()
		serve(q, &prompt)
		serve(q, &prompt) // is prompt, so it keeps its turn
		time.Sleep(time.Minute)
		other.Begin(q)
		other.End(q)
		if s := q.Stats(); s.Waits != 0 {
			t.Errorf("got %+v, want no wait for a connection that was idle for a minute", s)
		}
	})
}

func TestALimitThatEndsLeavesNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(1)
		prompt := usedTurn()
		serve(q, &prompt)
		serve(q, &prompt)
		for range maxIdle {
			q.Adjust(0)
		}
		time.Sleep(2 * quickTime)
		serve(q, &prompt)
		if s := q.Stats(); s.Active != 0 || prompt.slow {
			t.Errorf("got %+v, slow %v; want no turn, and a quick request", s, prompt.slow)
		}
	})
}

func TestConnectionsOfSlowUpstreamsTakeNoTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(1)
		holder, slow := usedTurn(), usedTurn()
		slow.Begin(q)
		time.Sleep(quickTime + 1)
		slow.End(q)
		holder.Begin(q)
		if slowBegins := begin(q, &slow); !returned(slowBegins) {
			t.Error("a connection whose last request was slow waits for a turn")
		}
		time.Sleep(quickTime)
		slow.End(q)
		if slowBegins := begin(q, &slow); returned(slowBegins) {
			t.Errorf("a connection whose last request took %v waits for no turn", quickTime)
		}
		holder.Leave(q)
		synctest.Wait()
		slow.Leave(q)
		if s := q.Stats(); s.Active != 0 || s.Waits != 1 {
			t.Errorf("got %+v, want one wait and no turn left", s)
		}
	})
}

func TestTurnsAreShortWhileOthersWaitLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(1)
		prompt, other := usedTurn(), usedTurn()
		serve(q, &prompt)
		prompt.Begin(q)
		otherBegins := begin(q, &other)
		q.waiting.first.since = q.waiting.first.since.Add(-fairWait)
		prompt.End(q)
		if !returned(otherBegins) {
			t.Errorf("a turn went on while another connection had waited for %v", fairWait)
		}
		other.End(q)
	})
}

func TestNoRequestWaitsLongerThanMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(1)
		turns := make([]Turn, 20)
		for i := range turns {
			turns[i] = usedTurn()
		}
		began := time.Now()
		var running sync.WaitGroup
		for i := range turns {
			running.Go(func() {
				turns[i].Begin(q)
				if took := time.Since(began); took > maxWait+sweepInterval {
					t.Errorf("connection %d waited for %v, want at most %v", i, took, maxWait+sweepInterval)
				}
				time.Sleep(time.Second) // a slow upstream
				turns[i].End(q)
			})
		}
		running.Wait()
		if s := q.Stats(); s.Overdue == 0 || s.Waiting != 0 || q.active != 0 {
			t.Errorf("got %+v and %d turns, want some overdue and nothing left", s, q.active)
		}
	})
}

func TestWaitingConnectionsAreServedWhenLimitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(100)
		turns := make([]Turn, q.limit+100)
		for i := range turns {
			turns[i] = usedTurn()
		}
		var last <-chan struct{}
		for i := range turns {
			last = begin(q, &turns[i])
		}
		if returned(last) {
			t.Fatal("the limit does not hold")
		}
		for range maxIdle {
			q.Adjust(0)
		}
		if !returned(last) {
			t.Error("connections still wait after the limit has ended")
		}
		for i := range turns {
			turns[i].End(q)
		}
		if q.active != 0 || q.holders.length != 0 {
			t.Errorf("%d turns are left, %d in the list; want 0", q.active, q.holders.length)
		}
	})
}

func TestConcurrentConnectionsStayWithinTheLimit(t *testing.T) {
	const limit, connections, requests = 4, 64, 200
	q := bounded(limit)
	var mu sync.Mutex
	served, most := 0, 0
	var running sync.WaitGroup
	for range connections {
		running.Go(func() {
			turn := usedTurn()
			defer turn.Leave(q)
			for i := range requests {
				turn.Await(q)
				turn.Begin(q)
				mu.Lock()
				served++
				mu.Unlock()
				q.mu.Lock()
				most = max(most, q.active)
				q.mu.Unlock()
				if i == requests-1 {
					return // as a connection that ends in a request
				}
				turn.End(q)
			}
		})
	}
	running.Wait()
	if served != connections*requests || most > limit || q.active != 0 || q.holders.length != 0 || q.waiting.length != 0 {
		t.Errorf("served %d of %d, %d turns at once (want at most %d); left: %d turns, %d held, %d waiting",
			served, connections*requests, most, limit, q.active, q.holders.length, q.waiting.length)
	}
}

func TestTurnsNeedNoAllocation(t *testing.T) {
	q, turn := bounded(1), usedTurn()
	if n := testing.AllocsPerRun(1000, func() { serve(q, &turn) }); n != 0 {
		t.Errorf("%v allocations for a request, want 0", n)
	}
}
