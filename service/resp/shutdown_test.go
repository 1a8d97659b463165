package resp_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/service/resp"
)

func TestShutdownAnswersWhatWasSent(t *testing.T) {
	started, land := make(chan struct{}, 1), make(chan struct{})
	store := &slowStore{Store: newStore(t, memstore.Options{}), hook: func(context.Context, string) error {
		started <- struct{}{}
		<-land
		return nil
	}}
	s := serve(t, onRedis(t, store))
	idle, busy := dial(t, s.address), dial(t, s.address)
	idle.wants("PONG", "PING")
	busy.send(encode("CL.THROTTLE", "a", "0", "1", "60"))
	<-started
	busy.send(encode("ECHO", "sent before the end"))
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	if got := idle.closed(); got != "" {
		t.Errorf("who is idle: got %q", got)
	}
	if c, err := net.Dial("tcp", s.address); err == nil {
		_ = c.Close()
		t.Error("there are still new connections")
	}
	close(land)
	if got := busy.read(); got != "0 1 0 -1 60" {
		t.Errorf("what was decided: got %q", got)
	}
	if got := busy.closed(); !strings.Contains(got, "sent before the end") {
		t.Errorf("what was sent: got %q", got)
	}
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

func TestShutdownCutsOffWhenItsTimeIsOver(t *testing.T) {
	started := make(chan struct{}, 1)
	store := &slowStore{Store: newStore(t, memstore.Options{}), hook: func(ctx context.Context, _ string) error {
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}
	s := serve(t, onRedis(t, store))
	c := dial(t, s.address)
	c.send(encode("CL.THROTTLE", "a", "0", "1", "60"))
	<-started
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: got %v, want that its time is over", err)
	}
}

func TestAServerIsServedOnce(t *testing.T) {
	s, err := resp.New(onMemory(t, memstore.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); !errors.Is(err, resp.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}
