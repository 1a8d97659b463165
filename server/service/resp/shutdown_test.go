package resp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/service/resp"
)

func TestShutdownRepliesToSentCommands(t *testing.T) {
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
	s.endsFor(t, idle, busy, func() {
		if c, err := net.Dial("tcp", s.address); err == nil {
			_ = c.Close()
			t.Error("there are still new connections")
		}
		close(land)
	})
}

// endsFor shuts the server down while one client is idle and another waits for a decision and has sent more commands.
// It calls then, which makes the decision, when the idle client is disconnected.
func (s running) endsFor(t *testing.T, idle, busy *client, then func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	if got := idle.closed(); got != "" {
		t.Errorf("who is idle: got %q", got)
	}
	then()
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

func TestShutdownAbortsAfterItsDeadline(t *testing.T) {
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

func TestShutdownAbortsBusyClients(t *testing.T) {
	for range 3 {
		s := serve(t, onMemory(t, memstore.Options{}))
		var asking sync.WaitGroup
		for i := range 4 {
			c := dial(t, s.address)
			c.wants("PONG", "PING")
			asking.Go(func() {
				ask := []byte(strings.Repeat("INFO\r\n", 100))
				if i%2 == 0 {
					ask = []byte(strings.Repeat("\r\n", 1<<16)) // commands without a reply
				}
				for {
					if _, err := c.Write(ask); err != nil {
						return
					}
				}
			})
			asking.Go(func() { _, _ = io.Copy(io.Discard, c.Conn) }) // however it ends
		}
		await.True(t, "they ask", func() bool { return s.Stats().Commands > 10 })
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown(ctx) }()
		select {
		case <-ended: // in time or not
		case <-time.After(patience):
			t.Fatal("Shutdown hangs")
		}
		asking.Wait()
	}
}

func TestServeFailsAfterShutdown(t *testing.T) {
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

func TestHalfClosedClientIsClosed(t *testing.T) {
	t.Run("its first command", func(t *testing.T) {
		s, err := resp.New(onMemory(t, memstore.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c := dial(t, l.Addr().String())
		c.send("PING\r\n")
		c.half()
		serveOn(t, s, l) // only now does it read, and finds both
		if got := c.closed(); got != "+PONG\r\n" {
			t.Errorf("got %q, want an answer and the end", got)
		}
	})
	t.Run("a later one", func(t *testing.T) {
		started, land := make(chan struct{}, 1), make(chan struct{})
		store := &slowStore{Store: newStore(t, memstore.Options{}), hook: func(_ context.Context, key string) error {
			if strings.Contains(key, "slow") {
				started <- struct{}{}
				<-land
			}
			return nil
		}}
		config := onRedis(t, store)
		config.Limits.CommandTimeout = 4 * time.Second // ticks of 500 ms
		s := serve(t, config)
		c := dial(t, s.address)
		for range 10 {
			c.wants("PONG", "PING")
		}
		c.send(encode("CL.THROTTLE", "slow", "0", "1", "60"))
		<-started
		c.send("PING\r\n")
		c.half()
		close(land)
		if got := c.closed(); !strings.HasSuffix(got, "+PONG\r\n") {
			t.Errorf("got %q, want two answers and the end", got)
		}
		if got := s.Stats().Expired; got != 0 {
			t.Errorf("%d were closed for their silence, want none", got)
		}
	})
}

func TestProbedConnectionStaysOpen(t *testing.T) {
	config := onMemory(t, memstore.Options{})
	config.Limits.CommandTimeout = 800 * time.Millisecond // ticks of 100 ms
	s := serve(t, config)
	c := dial(t, s.address)
	for range 8 {
		c.wants("PONG", "PING")
		time.Sleep(240 * time.Millisecond) // long enough for a probe, shorter than the timeout
	}
	if n := s.Stats(); n.Open != 1 || n.Expired != 0 {
		t.Errorf("got %+v, want one connection", n)
	}
}

func TestUnauthenticatedConnectionExpires(t *testing.T) {
	config := onMemory(t, memstore.Options{})
	config.Token = token(t, "0123456789abcdef")
	config.Limits.CommandTimeout = time.Second
	s := serve(t, config)
	shown, silent := dial(t, s.address), dial(t, s.address)
	shown.wants("OK", "AUTH", "0123456789abcdef")
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := silent.Write([]byte("PING\r\n")); err != nil {
			break // disconnected, although it has sent commands
		}
		if time.Now().After(end) {
			t.Fatal("who shows no token may stay")
		}
	}
	shown.wants("PONG", "PING")
}
