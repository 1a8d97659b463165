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

// twoEditors reads the same rule with two handles and changes it concurrently, many times. Each time, one handle must
// commit its change, and the other one must get a conflict.
func twoEditors(t *testing.T, newDB New) {
	open := newDB(t)
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
				Namespace: "n", Base: control.AnyRevision, Actor: strconv.Itoa(i),
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
			t.Errorf("round %d: got a conflict with revision %d and a commit of revision %d, want %d", round,
				conflict.Have, revisions[winner], round+2)
		}
	}
	t.Logf("commits of the two handles: %d and %d", won[0], won[1])
}

// noGaps writes different objects with several handles concurrently, and reads with another one. When that handle sees
// a revision, it must also see all earlier revisions, because otherwise watchers would miss changes.
func noGaps(t *testing.T, newDB New) {
	const writers, changesPerWriter = 4, 25
	open := newDB(t)
	reader := open()
	var wg sync.WaitGroup
	for w := range writers {
		db := open()
		wg.Go(func() {
			for i := range changesPerWriter {
				c := control.Change{
					Namespace: fmt.Sprintf("n%d", w%2), Base: control.AnyRevision,
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
			ended = true // read once more
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
				t.Fatalf("got revision %d after %d, last revision %d", c.Revision, known, last)
			}
			known = c.Revision
		}
		if known != last {
			t.Fatalf("the last revision is %d, and the log ends at %d", last, known)
		}
		if ended && !t.Failed() && known != writers*changesPerWriter {
			t.Errorf("got %d changes, want %d", known, writers*changesPerWriter)
		}
	}
}
