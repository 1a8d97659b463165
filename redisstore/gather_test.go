package redisstore

import (
	"bytes"
	"errors"
	"net"
	"testing"
)

// sentConn is a connection that keeps what is sent.
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

func mustWrite(t *testing.T, g *gatherer, text string) {
	t.Helper()
	if n, err := g.write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("wrote %d bytes of %d, %v", n, len(text), err)
	}
}

func TestCommandsAreGatheredOnlyWhileAnAnswerIsOwedAndManyAreUnderWay(t *testing.T) {
	t.Parallel()
	conn, many := &sentConn{}, true
	g := &gatherer{conn: conn, many: func() bool { return many }}
	mustWrite(t, g, "a") // nothing would send it later
	conn.want(t, "a")
	mustWrite(t, g, "b")
	mustWrite(t, g, "c")
	conn.want(t)
	g.answered()
	conn.want(t, "bc")
	mustWrite(t, g, "d") // the answers to b and c are owed
	conn.want(t)
	g.answered()
	conn.want(t, "d")
	g.answered()
	mustWrite(t, g, "e")
	conn.want(t, "e")
	many = false
	mustWrite(t, g, "f")
	conn.want(t, "f")
}

func TestCommandsThatFillAPacketAreSentAndKeepTheirOrder(t *testing.T) {
	t.Parallel()
	conn, many := &sentConn{}, true
	g := &gatherer{conn: conn, many: func() bool { return many }}
	mustWrite(t, g, "first")
	half := string(bytes.Repeat([]byte("x"), packet/2))
	mustWrite(t, g, half)
	conn.want(t, "first")
	mustWrite(t, g, half)
	conn.want(t, half+half)
	mustWrite(t, g, "kept")
	many = false
	mustWrite(t, g, "last")
	conn.want(t, "keptlast")
}

func TestAKeptCommandThatCannotBeSentEndsTheConnection(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	conn := &sentConn{}
	g := &gatherer{conn: conn, many: func() bool { return true }}
	mustWrite(t, g, "a")
	mustWrite(t, g, "b")
	conn.fails = broken
	g.answered()
	if !conn.closed {
		t.Error("the connection is open though what was kept is lost")
	}
	if _, err := g.write([]byte("c")); !errors.Is(err, broken) {
		t.Errorf("got error %v, want %v", err, broken)
	}
}
