package turns

import (
	"testing"
	"testing/synctest"
	"time"
)

// await calls Await in a goroutine, as begin calls Begin.
func await(q *Queue, t *Turn) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		t.Await(q)
		close(done)
	}()
	synctest.Wait()
	return done
}

// promptTurn returns the turn of a connection whose client sends each request promptly, after its turn has ended.
func promptTurn(q *Queue) Turn {
	t := usedTurn()
	for range 1 + maxRequests { // the first one is not known to be prompt
		serve(q, &t)
	}
	return t
}

func TestPromptConnectionsAwaitTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(1)
		prompt, holder := promptTurn(q), usedTurn()
		holder.Begin(q)
		awaited := await(q, &prompt)
		if returned(awaited) {
			t.Fatal("a connection reads its request before its turn")
		}
		holder.End(q)
		if !returned(awaited) {
			t.Fatal("Await waits although the turn of the other connection has ended")
		}
		prompt.Begin(q) // does not wait
		prompt.End(q)
		prompt.Leave(q)
		if s := q.Stats(); s.Waits != 1 || s.Active != 0 {
			t.Errorf("got %+v, want one wait and no turn left", s)
		}
	})
}

func TestOthersDoNotAwaitTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(1)
		prompt, pausing, fresh, slow := promptTurn(q), usedTurn(), Turn{}, promptTurn(q)
		serve(q, &pausing)
		time.Sleep(promptTime)
		serve(q, &pausing)
		slow.slow = true
		prompt.Await(q) // there is a turn to have
		prompt.Begin(q)
		prompt.End(q)
		prompt.Await(q) // it keeps its turn
		for name, turn := range map[string]*Turn{
			"that pauses": &pausing, "without requests": &fresh, "with a slow upstream": &slow,
		} {
			if !returned(await(q, turn)) {
				t.Errorf("a connection %s waits before it reads", name)
			}
		}
		prompt.Leave(q)
	})
}

func TestATurnEndsIfNoRequestWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(1)
		idle, holder, other := promptTurn(q), usedTurn(), usedTurn()
		holder.Begin(q)
		awaited := await(q, &idle)
		otherBegins := begin(q, &other)
		holder.End(q)
		if !returned(awaited) || returned(otherBegins) {
			t.Fatal("the connection that waited first has no turn")
		}
		time.Sleep(promptTime + sweepInterval)
		if !returned(otherBegins) {
			t.Errorf("no turn %v after another connection without a request got one", promptTime+sweepInterval)
		}
		idleBegins := begin(q, &idle)
		if returned(idleBegins) {
			t.Error("the connection whose turn has ended is served beside the other")
		}
		other.End(q)
		if !returned(idleBegins) {
			t.Error("the connection whose turn has ended gets no other")
		}
		idle.End(q)
	})
}

func TestAwaitAndBeginWaitOnceTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := bounded(1)
		prompt, holder := promptTurn(q), usedTurn()
		for range 2 { // holders of turns that never end, as far as sweep knows
			holder.Begin(q)
		}
		q.holders.remove(&holder)
		began := time.Now()
		prompt.Await(q)
		prompt.Begin(q)
		if took := time.Since(began); took < maxWait || took > maxWait+sweepInterval {
			t.Errorf("waited for %v, want %v", took, maxWait)
		}
		prompt.End(q)
		if s := q.Stats(); s.Overdue != 1 || s.Waits != 1 || s.Active != 1 {
			t.Errorf("got %+v, want one wait, which was too long", s)
		}
	})
}
