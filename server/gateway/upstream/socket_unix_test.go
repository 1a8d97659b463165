//go:build unix

package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

// pair returns both ends of a connection over TCP.
func pair(t *testing.T) (ours *net.TCPConn, theirs *peer) {
	t.Helper()
	ends := make(chan *peer)
	over := make(chan struct{})
	u := script(t, func(c *peer, _ int) {
		ends <- c
		<-over
	})
	t.Cleanup(func() { close(over) })
	c, err := net.Dial("tcp", u.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patient))
	return c.(*net.TCPConn), <-ends
}

func TestSendAndWaitReadsResponse(t *testing.T) {
	ours, theirs := pair(t)
	s := newSocket(ours)
	go func() {
		b := make([]byte, 4)
		for range 3 {
			if _, err := io.ReadFull(theirs, b); err != nil {
				return
			}
			time.Sleep(time.Millisecond)
			theirs.say("pong")
		}
	}()
	for range 3 {
		in := make([]byte, 100)
		if sent, n, err := s.sendAndWait([]byte("ping"), in); sent != 4 || string(in[:n]) != "pong" || err != nil {
			t.Fatalf("got %d, %q, %v; want 4, pong", sent, in[:n], err)
		}
	}
}

func TestSendAndWaitReturnsErrors(t *testing.T) {
	in := make([]byte, 100)
	t.Run("the end", func(t *testing.T) {
		ours, theirs := pair(t)
		go func() {
			_, _ = io.ReadFull(theirs, make([]byte, 4))
			_ = theirs.Close()
		}()
		if sent, n, err := newSocket(ours).sendAndWait([]byte("ping"), in); sent != 4 || n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("got %d, %d, %v; want 4, 0, EOF", sent, n, err)
		}
	})
	t.Run("too late", func(t *testing.T) {
		ours, _ := pair(t)
		_ = ours.SetDeadline(time.Now().Add(time.Second / 2)) // long enough to send it
		if sent, n, err := newSocket(ours).sendAndWait([]byte("ping"), in); sent != 4 || n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %d, %d, %v; want 4, 0, the deadline", sent, n, err)
		}
	})
	t.Run("too late to begin", func(t *testing.T) {
		ours, _ := pair(t)
		_ = ours.SetDeadline(pastTime)
		if sent, n, err := newSocket(ours).sendAndWait([]byte("ping"), in); sent != 0 || n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %d, %d, %v; want 0, 0, the deadline", sent, n, err)
		}
	})
	t.Run("peer closed", func(t *testing.T) {
		ours, theirs := pair(t)
		theirs.reset()
		s := newSocket(ours)
		await.True(t, "the reset has arrived", func() bool { return !s.isQuiet() })
		_, _ = ours.Read(in) // reads the error, which would be returned first
		if sent, n, err := s.sendAndWait([]byte("ping"), in); sent != 0 || n != 0 || err == nil {
			t.Errorf("got %d, %d, %v; want 0, 0 and an error", sent, n, err)
		}
	})
	t.Run("closed meanwhile", func(t *testing.T) {
		ours, theirs := pair(t)
		go func() {
			_, _ = io.ReadFull(theirs, make([]byte, 4))
			_ = ours.Close()
		}()
		if _, n, err := newSocket(ours).sendAndWait([]byte("ping"), in); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %d, %v; want 0, closed", n, err)
		}
	})
	t.Run("no room", func(t *testing.T) {
		ours, _ := pair(t)
		_ = ours.SetWriteBuffer(4 << 10)
		out := make([]byte, 64<<20)
		if sent, n, err := newSocket(ours).sendAndWait(out, in); sent == 0 || sent == len(out) || n != 0 || err != nil {
			t.Errorf("got %d, %d, %v; want a part sent and no error", sent, n, err)
		}
	})
}

func TestLargeRequestIsSentInParts(t *testing.T) {
	u := script(t, func(c *peer, _ int) {
		for {
			time.Sleep(3 * watchDelay) // nothing is sent for longer than watchDelay
			r := c.request()
			if r == nil {
				return
			}
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	p := newPool(t, Config{Address: u.address, MaxBufferedBody: 1 << 20, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
		}
		return c, err
	}})
	for range 2 {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/", bytes.NewReader(make([]byte, 1<<20)))
		if out, err := p.Forward(context.Background(), w, r, Head{}); err != nil || w.Body.String() != "ok" {
			t.Errorf("got %q, %+v, %v", w.Body, out, err)
		}
	}
	if s := p.Stats(); s.Dials != 1 {
		t.Errorf("got %+v, want one connection", s)
	}
}

func TestFailedFirstWriteCountsAsUnsent(t *testing.T) {
	ours, theirs := pair(t)
	theirs.reset()
	c := newConn(ours, ours, time.Minute)
	await.True(t, "the reset has arrived", func() bool { return !c.isReusable() })
	_, _ = ours.Read(make([]byte, 1))
	x := &roundTrip{c: c, request: []byte("GET / HTTP/1.1\r\n\r\n"), deadlines: deadlines{provisional: true}}
	if err := x.sendAndWait(); err == nil || !x.nothingSent {
		t.Errorf("got %v, not sent: %v; want an error and that nothing was sent", err, x.nothingSent)
	}
}

// wrapped is a connection that wraps another one and returns its socket.
type wrapped struct{ *net.TCPConn }

func TestWrappersOfSocketsAreNotBypassed(t *testing.T) {
	ours, _ := pair(t)
	if newSocket(ours) == nil {
		t.Error("a connection of TCP has no socket")
	}
	if newSocket(wrapped{ours}) != nil {
		t.Error("one that only has a connection of TCP within it does; its own Read and Write would never be called")
	}
}
