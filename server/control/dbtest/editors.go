package dbtest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/headgate/headgate/server/control"
)

// rounds is how often two editors change the same rule concurrently.
const rounds = 100

// twoEditors lets two handles read the same rule and change it concurrently, many times: one of them commits its change,
// the other gets a conflict, and no accepted change is lost.
func twoEditors(t *testing.T, fresh New) {
	open := fresh(t)
	handles := []control.DB{open(), open()}
	commit(t, handles[0], "n", rule("counter", control.Absent, `0`))
	won := make([]int, len(handles))
	for round := range rounds {
		errs := make([]error, len(handles))
		revisions := make([]int64, len(handles))
		changes := make([]control.Change, len(handles))
		for i, db := range handles {
			o := get(t, db, "n", "counter")
			if string(o.Body) != strconv.Itoa(round) {
				t.Fatalf("round %d: editor %d reads %s: an update was lost", round, i, o.Body)
			}
			changes[i] = control.Change{
				Namespace: "n", Base: control.Any, Actor: strconv.Itoa(i),
				Ops: []control.Op{rule("counter", o.Revision, strconv.Itoa(round+1))},
			}
		}
		var wg sync.WaitGroup
		for i, db := range handles {
			wg.Go(func() {
				errs[i] = db.Commit(t.Context(), &changes[i])
				revisions[i] = changes[i].Revision
			})
		}
		wg.Wait()
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		won[winner]++
		var conflict *control.Conflict
		if errs[winner] != nil || !errors.As(errs[1-winner], &conflict) {
			t.Fatalf("round %d: got %v and %v, want one to win and one to conflict", round, errs[0], errs[1])
		}
		if conflict.Have != revisions[winner] || conflict.Have != int64(round)+2 {
			t.Errorf("round %d: the loser hears of revision %d, the winner has %d, want %d", round, conflict.Have,
				revisions[winner], round+2)
		}
	}
	t.Logf("one has won %d times, the other %d", won[0], won[1])
}

// noGaps lets several handles write different objects concurrently, while one reads: when it sees a revision, it sees
// all earlier revisions. Otherwise a watcher would miss them.
func noGaps(t *testing.T, fresh New) {
	const writers, each = 4, 25
	open := fresh(t)
	reader := open()
	var wg sync.WaitGroup
	for w := range writers {
		db := open()
		wg.Go(func() {
			for i := range each {
				c := control.Change{
					Namespace: fmt.Sprintf("n%d", w%2), Base: control.Any,
					Ops: []control.Op{put(control.KindRule, fmt.Sprintf("%d-%d", w, i), `{}`)},
				}
				if err := db.Commit(t.Context(), &c); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	for known, ended := int64(0), false; !ended; {
		select {
		case <-done:
			ended = true // and read once more
		default:
		}
		last, _, err := reader.Revision(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		changes, err := reader.Log(t.Context(), control.LogQuery{After: known, Before: last + 1, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			if c.Revision != known+1 {
				t.Fatalf("revision %d follows %d, where the last was %d", c.Revision, known, last)
			}
			known = c.Revision
		}
		if known != last {
			t.Fatalf("the last revision is %d, and the log ends at %d", last, known)
		}
		if ended && !t.Failed() && known != writers*each {
			t.Errorf("got %d changes, want %d", known, writers*each)
		}
	}
}
