package follow_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control/follow"
)

// storeChanges stores a number of changes on disk, each with one new rule, and returns the directory.
func storeChanges(t *testing.T, changes int) (dir string, source follow.Source) {
	t.Helper()
	db := openDB(t)
	dir = t.TempDir()
	commit(t, db, rule("per-user", perUser))
	source = follow.Database(db, namespace, nil)
	n := open(t, follow.Config{Source: source, Dir: dir, Poll: time.Hour})
	stop := n.run(t)
	for i := range changes {
		id := fmt.Sprint("r", i)
		revision := commit(t, db, rule(id, fmt.Sprintf(`{"id":%q,"when":{"path":"/%s"},"limits":["1/s"]}`, id, id)))
		until(t, "the change is in force", func() bool { return n.Status().Revision == revision })
	}
	stop()
	return dir, source
}

// The rules are compiled once for all changes on disk. Compiling them for each change takes time, and memory, in
// proportion to the square of the changes.
func TestStartFromDiskIsLinearInTheChanges(t *testing.T) { // not parallel: it counts allocations
	allocations := func(changes int) float64 {
		dir, source := storeChanges(t, changes)
		return testing.AllocsPerRun(1, func() {
			n := open(t, follow.Config{Source: source, Dir: dir, Poll: time.Hour})
			if s := n.Status(); s.Rules != changes+1 {
				t.Errorf("got %d rules from disk, want %d", s.Rules, changes+1)
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	few, many := allocations(25), allocations(100)
	if ratio := many / few; ratio > 6 {
		t.Errorf("four times the changes need %.1f times the allocations (%.0f, %.0f), want about 4", ratio, few, many)
	}
}
