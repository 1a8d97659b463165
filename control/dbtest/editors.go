package dbtest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/headgate/headgate/control"
)

// rounds is how many updates each editor has to get through.
const rounds = 100

// twoEditors has two handles add one to the same number, each based on what it has read: every addition must be there at
// the end.
func twoEditors(t *testing.T, fresh New) {
	open := fresh(t)
	handles := []control.DB{open(), open()}
	commit(t, handles[0], "n", rule("counter", control.Absent, `0`))
	var wg sync.WaitGroup
	lost := make([]int, len(handles))
	for i, db := range handles {
		wg.Go(func() {
			for done := 0; done < rounds; {
				o, err := db.Get(t.Context(), "n", control.KindRule, "counter")
				if err != nil {
					t.Error(err)
					return
				}
				n, err := strconv.Atoi(string(o.Body))
				if err != nil {
					t.Error(err)
					return
				}
				c := control.Change{Namespace: "n", Base: control.Any, Actor: strconv.Itoa(i), Ops: []control.Op{rule("counter", o.Revision, strconv.Itoa(n+1))}}
				switch err := db.Commit(t.Context(), &c); {
				case err == nil:
					done++
				case errors.Is(err, control.ErrConflict):
					lost[i]++ // somebody else was faster: read it again
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	t.Logf("%d and %d updates were refused and done again", lost[0], lost[1])
	o := get(t, handles[1], "n", control.KindRule, "counter")
	if want := strconv.Itoa(2 * rounds); string(o.Body) != want {
		t.Errorf("got %s, want %s: an update was lost", o.Body, want)
	}
	if o.Revision != 2*rounds+1 {
		t.Errorf("revision: got %d, want %d", o.Revision, 2*rounds+1)
	}
}

// noGaps has several handles write different objects at once, while one reads: when it sees a revision, it sees all before
// it as well. Otherwise a watcher would never hear of those.
func noGaps(t *testing.T, fresh New) {
	const writers, each = 4, 25
	open := fresh(t)
	reader := open()
	var wg sync.WaitGroup
	for w := range writers {
		db := open()
		wg.Go(func() {
			for i := range each {
				c := control.Change{Namespace: fmt.Sprintf("n%d", w%2), Base: control.Any, Ops: []control.Op{put(control.KindRule, fmt.Sprintf("%d-%d", w, i), `{}`)}}
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
			ended = true // and look once more
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
