package redistest

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestAProxyThatIsCutBreaksAndRefusesConnections(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, Standalone(t, Options{}).Addr())
	c := client(t, "tcp", p.Addr())
	expect(t, c, "PONG", "PING")
	p.Cut()
	if _, err := c.do([]string{"PING"}); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("PING on an old connection: got %v, want it broken", err)
	}
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection: got %v, want refused", err)
	}
	p.Heal()
	expect(t, client(t, "tcp", p.Addr()), "PONG", "PING")
}

func TestABlackHoleSwallowsBytesAndKeepsConnections(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	p := NewProxy(t, s.Addr())
	idle, old := client(t, "tcp", p.Addr()), client(t, "tcp", p.Addr())
	expect(t, idle, "PONG", "PING")
	expect(t, old, "1", "INCR", "key")
	p.Blackhole()
	for _, c := range []*conn{old, client(t, "tcp", p.Addr())} {
		if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if reply, err := c.do([]string{"INCR", "key"}); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("INCR into a black hole: got %v, %v; want no reply in time", reply, err)
		}
	}
	if got := s.must("GET", "key"); got != "1" {
		t.Errorf("the server has %v, want 1", got)
	}
	p.Heal()
	expect(t, idle, "PONG", "PING")
	if err := old.SetReadDeadline(time.Now().Add(doTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := old.do([]string{"PING"}); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("PING on a connection that lost bytes: got %v, want it broken", err)
	}
	expect(t, client(t, "tcp", p.Addr()), "2", "INCR", "key")
}

func TestADelayedProxyKeepsOrderAndThroughput(t *testing.T) {
	t.Parallel()
	const delay = 100 * time.Millisecond
	p := NewProxy(t, Standalone(t, Options{}).Addr())
	c := client(t, "tcp", p.Addr())
	expect(t, c, "PONG", "PING")
	p.SetDelay(delay)
	start := time.Now()
	// One after the other, each without waiting for the reply to the one before.
	for range 100 {
		if _, err := c.Write(command([]string{"INCR", "key"})); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	for i := range int64(100) {
		if got, err := readReply(c.replies); got != i+1 {
			t.Fatalf("got %v, %v; want %d", got, err, i+1)
		}
		if took := time.Since(start); i == 0 && took < 2*delay {
			t.Errorf("the first reply took %v, want at least %v", took, 2*delay)
		}
	}
	if took := time.Since(start); took > 100*delay { // half of what it would be one by one
		t.Errorf("a hundred replies took %v; they should not wait for each other", took)
	}
	p.SetDelay(0)
	expect(t, c, "PONG", "PING")
}

func TestAProxyPassesTheEndOfAConnectionOn(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	c := client(t, "tcp", NewProxy(t, s.Addr()).Addr())
	expect(t, c, "PONG", "PING")
	s.Kill()
	if reply, err := c.do([]string{"PING"}); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, %v; want the connection closed", reply, err)
	}
}
