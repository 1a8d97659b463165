package conns_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/conns"
)

func TestConnectionsThatAreTooManyAreClosedAndCounted(t *testing.T) {
	t.Parallel()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	of := &conns.Conns{Most: 2}
	l := of.Listener(plain)
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	try := func() (net.Conn, error) { return net.DialTimeout("tcp", plain.Addr().String(), time.Minute) }
	prepare := func(conn net.Conn, err error) net.Conn {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	for range 2 {
		prepare(try())
	}
	first := <-accepted
	<-accepted
	// It may be closed before the client knows that it was open.
	if conn, err := try(); err == nil {
		if n, err := prepare(conn, nil).Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("one too many: got %d bytes, %v; want it closed", n, err)
		}
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("one too many: got %v", err)
	}
	if of.Open() != 2 || of.Accepted() != 2 || of.Refused() != 1 {
		t.Errorf("got %d open, %d accepted, %d refused; want 2, 2, 1", of.Open(), of.Accepted(), of.Refused())
	}
	_ = first.Close()
	of.Done()
	next := prepare(try())
	served := <-accepted
	if _, err := io.WriteString(served, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := next.Read(make([]byte, 1)); err != nil {
		t.Errorf("when there is room again: got %v", err)
	}
	if of.Open() != 2 || of.Accepted() != 3 {
		t.Errorf("got %d open, %d accepted; want 2, 3", of.Open(), of.Accepted())
	}
}
