package follow_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/follow"
)

// watched calls look repeatedly during the rest of a test. It ends with the first error, or when stop is
// called.
func watched(t *testing.T, look func() error) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := look(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	stop = sync.OnceFunc(func() {
		close(done)
		group.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// has returns the limit of a user under the rule per-user, 0 if there is none, and that of all other users.
func has(set *match.Set, user string) (count, others int64) {
	m, ok := set.MatchRule("per-user", rules.Attributes{{Kind: headgate.AttrUser}: user})
	if ok && len(m.Limits) > 0 {
		count = m.Limits[0].Count
	}
	if ok {
		others = m.Rule.Limits[0].Count
	}
	return count, others
}

// Decisions see a change of clients and rules completely or not at all.
func TestChangesAreAtomicForDecisions(t *testing.T) {
	t.Parallel()
	const clients = 200
	db := openDB(t)
	change := func(limit int, rules bool) int64 {
		var ops []control.Op
		if rules {
			ops = append(ops, rule("per-user", fmt.Sprintf(`{"id":"per-user","key":["user"],"limits":["%d/s"]}`, limit)))
		}
		for i := range clients {
			id := fmt.Sprintf("c%04d", i)
			ops = append(ops, client(id, fmt.Sprintf(`{"id":%q,"limits":["%d/s"]}`, id, limit)))
		}
		return commit(t, db, ops...)
	}
	change(1, true)
	n := open(t, follow.Config{Source: follow.Database(db, namespace, nil), Poll: time.Hour})
	n.run(t)
	last := fmt.Sprintf("c%04d", clients-1)
	stop := watched(t, func() error {
		set := n.set.Load()
		first, _ := has(set, "c0000")
		second, _ := has(set, last)
		third, _ := has(set, "c0000")
		if first == third && first != second || first < 1 || second < 1 {
			return fmt.Errorf("the first client has %d/s, the last %d/s, and the first still %d/s", first, second, third)
		}
		// Rules change after clients; until then the earlier rules stay.
		if own, others := has(set, last); others > 1 && own != others {
			return fmt.Errorf("a client has %d/s under rules that came with %d/s", own, others)
		}
		return nil
	})
	for limit := 2; limit <= 13; limit++ {
		revision := change(limit, limit > 7)
		n.Refresh()
		until(t, "the change is in force", func() bool { return n.Status().Revision == revision })
		if got, _ := has(n.set.Load(), last); got != int64(limit) {
			t.Fatalf("got %d/s, want %d/s", got, limit)
		}
	}
	stop()
	if s := n.Status(); s.Snapshots != 1 || s.Deltas == 0 {
		t.Errorf("got %d wholes and %d changes, want one and the rest", s.Snapshots, s.Deltas)
	}
}

// A value that moves from one client to another in one change always has a client.
func TestMovedValueAlwaysHasAClient(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	made := func(id string) control.Op {
		return client(id, fmt.Sprintf(`{"id":%q,"attributes":{"user":"acme"},"limits":["5/s"]}`, id))
	}
	commit(t, db, rule("per-user", `{"id":"per-user","key":["user"],"limits":["10/s"],"unregistered":"deny"}`), made("a"))
	n := open(t, follow.Config{Source: follow.Database(db, namespace, nil), Poll: time.Hour})
	n.run(t)
	stop := watched(t, func() error {
		if got, _ := has(n.set.Load(), "acme"); got != 5 {
			return fmt.Errorf("got %d/s, want 5/s at all times", got)
		}
		return nil
	})
	ids := []string{"a", "b"}
	for i := range 25 {
		revision := commit(t, db, gone(control.KindClient, ids[i%2]), made(ids[(i+1)%2]))
		n.Refresh()
		until(t, "the change is in force", func() bool { return n.Status().Revision == revision })
	}
	stop()
}
