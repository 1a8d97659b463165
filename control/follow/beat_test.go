package follow_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/follow"
	"github.com/headgate/headgate/control/remote"
	"github.com/headgate/headgate/internal/logbook"
)

// refusing is a source that takes no heartbeat, as a service does that is too old for what it is told.
type refusing struct {
	follow.Source
	beats chan struct{}
}

func (r refusing) Beat(context.Context, control.Node) (int64, time.Duration, error) {
	r.beats <- struct{}{}
	return 0, 0, &remote.Error{Status: 422, Detail: "It is not right."}
}

// A node that the service does not hear is not among the nodes that it shows. Its log says why, once.
func TestAHeartbeatThatIsRefusedIsToldOfOnce(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	var book logbook.Book
	source := refusing{follow.Database(db, namespace, nil), make(chan struct{})}
	n := open(t, follow.Config{
		Source: source, Poll: time.Hour, Logger: book.Logger(),
		Node: func() control.Node { return control.Node{ID: "n1"} },
	})
	n.run(t)
	for i := range 3 { // a change has one sent soon
		commit(t, db, rule("r", `{"id":"r","limits":["`+string(rune('1'+i))+`/s"]}`))
		select {
		case <-source.beats:
		case <-time.After(patience):
			t.Fatal("no heartbeat")
		}
	}
	if got := strings.Count(book.String(), "It is not right."); got != 1 {
		t.Errorf("the log has it %d times, want once:\n%s", got, book.String())
	}
}
