package conns_test

import (
	"io"
	"net"
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
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", plain.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	dial()
	dial()
	first := <-accepted
	<-accepted
	if n, err := dial().Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("one too many: got %d bytes, %v; want it closed", n, err)
	}
	if of.Open() != 2 || of.Accepted() != 2 || of.Refused() != 1 {
		t.Errorf("got %d open, %d accepted, %d refused; want 2, 2, 1", of.Open(), of.Accepted(), of.Refused())
	}
	_ = first.Close()
	of.Done()
	next := dial()
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
