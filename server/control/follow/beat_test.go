package follow_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/follow"
	"github.com/headgate/headgate/server/control/remote"
)

// refusing is a source that refuses heartbeats, like a service of an older version.
type refusing struct {
	follow.Source
	beats chan struct{}
}

func (r refusing) Heartbeat(context.Context, control.Node) (int64, time.Duration, error) {
	r.beats <- struct{}{}
	return 0, 0, &remote.Error{Status: 422, Detail: "It is not right."}
}

// A node whose heartbeats are refused logs the reason once: the service does not list it.
func TestRefusedHeartbeatIsLoggedOnce(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	var book logbook.Book
	source := refusing{follow.Database(db, namespace, nil), make(chan struct{})}
	n := open(t, follow.Config{
		Source: source, Poll: time.Hour, Logger: book.Logger(),
		Node: func() control.Node { return control.Node{ID: "n1"} },
	})
	n.run(t)
	for i := range 3 { // each change causes a heartbeat
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

// A talker is a source that records the messages of nodes in order. Each heartbeat blocks until it is released.
type talker struct {
	follow.Source
	begun, letGo chan struct{}
	stuck        bool // no call ever gets a response

	mu   sync.Mutex
	said []string
}

func (k *talker) say(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.said = append(k.said, what)
}

func (k *talker) all() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.said, " ")
}

func (k *talker) Heartbeat(ctx context.Context, n control.Node) (int64, time.Duration, error) {
	k.begun <- struct{}{}
	select {
	case <-k.letGo:
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	k.say("here: " + n.ID)
	return 0, time.Hour, nil
}

func (k *talker) Leave(ctx context.Context, n control.Node) error {
	if k.stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	k.say("gone: " + n.ID)
	return ctx.Err()
}

// With a heartbeat after the last message, the service would list the stopped node for an hour.
func TestLastMessageOfANodeIsItsStop(t *testing.T) {
	t.Parallel()
	source := &talker{Source: follow.Database(openDB(t), namespace, nil), begun: make(chan struct{}, 8), letGo: make(chan struct{})}
	n := open(t, follow.Config{Source: source, Poll: time.Hour, Node: func() control.Node { return control.Node{ID: "n1"} }})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		n.Run(ctx)
		close(ended)
	}()
	<-source.begun
	stop() // during a heartbeat
	close(source.letGo)
	<-ended
	if got, want := source.all(), "here: n1 gone: n1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A service that does not respond does not delay the stop of a node.
func TestNodeStopsWithoutTheService(t *testing.T) {
	t.Parallel()
	for _, silent := range []string{"when it is told that the node stops", "from the first heartbeat"} {
		source := &talker{Source: follow.Database(openDB(t), namespace, nil), begun: make(chan struct{}, 8), letGo: make(chan struct{}), stuck: true}
		n := open(t, follow.Config{Source: source, Poll: time.Hour, Node: func() control.Node { return control.Node{ID: "n1"} }})
		stop := n.run(t)
		<-source.begun
		if silent != "from the first heartbeat" {
			source.letGo <- struct{}{}
		}
		before := time.Now()
		stop()
		if took := time.Since(before); took > 4*time.Second { // less than a heartbeat may take otherwise
			t.Errorf("silent %s: it took %s to stop, want about a second", silent, took)
		}
	}
}
