package topology

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"testing"
)

// sentConn is a connection that records what is sent.
type sentConn struct {
	net.Conn
	sent   [][]byte
	fails  error
	closed bool
}

func (c *sentConn) Write(b []byte) (int, error) {
	if c.fails != nil {
		return 0, c.fails
	}
	c.sent = append(c.sent, bytes.Clone(b))
	return len(b), nil
}

func (c *sentConn) Close() error {
	c.closed = true
	return nil
}

func (c *sentConn) want(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, b := range c.sent {
		got = append(got, string(b))
	}
	c.sent = nil
	if len(got) != len(want) {
		t.Fatalf("sent %q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("sent %q, want %q", got, want)
		}
	}
}

func mustWrite(t *testing.T, g *batchWriter, text string) {
	t.Helper()
	if n, err := g.write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("wrote %d bytes of %d, %v", n, len(text), err)
	}
}

func TestCommandsAreCollectedOnlyWhileBusyAndAReplyIsDue(t *testing.T) {
	t.Parallel()
	conn, many := &sentConn{}, true
	g := &batchWriter{conn: conn, busy: func() bool { return many }}
	mustWrite(t, g, "a") // nothing would send it later
	conn.want(t, "a")
	mustWrite(t, g, "b")
	mustWrite(t, g, "c")
	conn.want(t)
	g.replied()
	conn.want(t, "bc")
	mustWrite(t, g, "d") // the replies to b and c are due
	conn.want(t)
	g.replied()
	conn.want(t, "d")
	g.replied()
	mustWrite(t, g, "e")
	conn.want(t, "e")
	many = false
	mustWrite(t, g, "f")
	conn.want(t, "f")
}

func TestCommandsThatFillAPacketAreSentInOrder(t *testing.T) {
	t.Parallel()
	conn, many := &sentConn{}, true
	g := &batchWriter{conn: conn, busy: func() bool { return many }}
	mustWrite(t, g, "first")
	half := string(bytes.Repeat([]byte("x"), packetSize/2))
	mustWrite(t, g, half)
	conn.want(t, "first")
	mustWrite(t, g, half)
	conn.want(t, half+half)
	mustWrite(t, g, "kept")
	many = false
	mustWrite(t, g, "last")
	conn.want(t, "keptlast")
}

func TestFailedSendOfCollectedCommandsClosesTheConnection(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	conn := &sentConn{}
	g := &batchWriter{conn: conn, busy: func() bool { return true }}
	mustWrite(t, g, "a")
	mustWrite(t, g, "b")
	conn.fails = broken
	g.replied()
	if !conn.closed {
		t.Error("the connection is open although collected commands are lost")
	}
	if _, err := g.write([]byte("c")); !errors.Is(err, broken) {
		t.Errorf("got error %v, want %v", err, broken)
	}
}

// slowConn is a connection that blocks writes until the test lets them through.
type slowConn struct {
	net.Conn
	begun, let chan struct{}
	sent       bytes.Buffer
}

func newSlowConn() *slowConn {
	return &slowConn{begun: make(chan struct{}), let: make(chan struct{})}
}

func (c *slowConn) Write(b []byte) (int, error) {
	c.begun <- struct{}{}
	<-c.let
	return c.sent.Write(b)
}

// The sender may lose its core. Replies are read meanwhile, and the sender sends what was collected.
func TestReaderDoesNotWaitForSender(t *testing.T) {
	t.Parallel()
	conn := newSlowConn()
	g := &batchWriter{conn: conn, busy: func() bool { return true }}
	var sender sync.WaitGroup
	sender.Go(func() { mustWrite(t, g, "a") })
	<-conn.begun
	g.replied() // to a, which the server has got before Write returns
	mustWrite(t, g, "b")
	conn.let <- struct{}{}
	<-conn.begun // the sender sends b
	mustWrite(t, g, "c")
	g.replied()
	conn.let <- struct{}{}
	<-conn.begun
	conn.let <- struct{}{}
	sender.Wait()
	if got := conn.sent.String(); got != "abc" {
		t.Errorf("sent %q, want %q", got, "abc")
	}
}

// A reply may arrive before Write returns. No reply is due then, so the next command is sent at once.
func TestReplyBeforeWriteReturnsLeavesNoReplyDue(t *testing.T) {
	t.Parallel()
	conn := newSlowConn()
	g := &batchWriter{conn: conn, busy: func() bool { return true }}
	for _, text := range []string{"a", "b"} {
		var sender sync.WaitGroup
		sender.Go(func() { mustWrite(t, g, text) })
		<-conn.begun
		g.replied()
		conn.let <- struct{}{}
		sender.Wait()
	}
	if got := conn.sent.String(); got != "ab" {
		t.Errorf("sent %q, want %q", got, "ab")
	}
}

// With a concurrent writer and reader, as in the client library, all commands get their replies in order.
func TestCommandsOfConcurrentSendersKeepTheirOrder(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	here, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = here.Close() }()
	there, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	g := &batchWriter{conn: here, busy: func() bool { return true }}
	const commands = 20_000
	var server sync.WaitGroup
	server.Go(func() { // replies at once
		defer func() { _ = there.Close() }()
		buffer := make([]byte, 4*packetSize)
		for next := byte(0); ; {
			n, err := there.Read(buffer)
			if err != nil {
				return
			}
			for _, b := range buffer[:n] {
				if b != next {
					t.Errorf("was sent %d, want %d", b, next)
					return
				}
				next++
			}
			if _, err := there.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
	room := make(chan struct{}, 64)
	server.Go(func() {
		for i := range commands {
			room <- struct{}{}
			if _, err := g.write([]byte{byte(i)}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	buffer := make([]byte, 4*packetSize)
	for heard := 0; heard < commands; {
		n, err := here.Read(buffer)
		if err != nil {
			t.Fatalf("after %d replies: %v", heard, err)
		}
		heard += n
		g.replied()
		for range n {
			<-room
		}
	}
	_ = here.Close()
	server.Wait()
}
