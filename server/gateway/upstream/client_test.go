package upstream

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

func TestDisconnectClosesUpstreamConnection(t *testing.T) {
	for name, tt := range map[string]struct{ say, request string }{
		"before the head":       {"", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		"within the head":       {"HTTP/1.1 200", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		"within the body":       {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		"within chunks":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		"after a small body":    {"", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok"},
		"after a streamed body": {"", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		"within a request body": {"", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"},
		"waiting to continue":   {"", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			begun, gone := make(chan struct{}), make(chan struct{})
			u := script(t, func(c *peer, _ int) {
				c.head()
				c.say(tt.say)
				close(begun)
				_ = c.gone()
				close(gone)
			})
			// net/http does not watch a client that waits for 100 Continue until its body is read.
			p := newPool(t, Config{Address: u.address, HeaderTimeout: -1, StallTimeout: -1, ExpectTimeout: 50 * time.Millisecond})
			f := newFront(t, p, nil)
			c := dialFront(t, f)
			c.say(tt.request)
			<-begun
			_ = c.Close()
			select {
			case <-gone:
			case <-time.After(patient):
				t.Fatal("the upstream's connection is still there")
			}
			if r := f.result(t); fault(r.err) != FaultClient && fault(r.err) != FaultBody {
				t.Errorf("outcome: got %+v, want a fault of the client", r)
			}
			if s := settled(t, p); s.Open != 0 {
				t.Errorf("the connection was kept: %+v", s)
			}
		})
	}
}

func TestClientIsWatchedOnReusedConnections(t *testing.T) {
	for name, before := range map[string]func(f *front){
		"nothing": func(*front) {},
		"a slow response": func(f *front) {
			f.get(t, "/slow")
		},
		"a response and a streamed body": func(f *front) {
			f.get(t, "/")
			f.do(t, "POST", "/", io.MultiReader(strings.NewReader("x")), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			begun, gone := make(chan struct{}), make(chan struct{})
			u := script(t, func(c *peer, _ int) {
				for {
					r := c.request()
					switch {
					case r == nil:
						return
					case r.URL.Path == "/hang":
						close(begun)
						_ = c.gone()
						close(gone)
						return
					case r.URL.Path == "/slow":
						time.Sleep(3 * watchDelay)
					}
					c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			})
			p := newPool(t, Config{Address: u.address, HeaderTimeout: -1, StallTimeout: -1})
			f := newFront(t, p, nil)
			c := dialFront(t, f)
			before(f)
			c.say("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n")
			<-begun
			_ = c.Close()
			select {
			case <-gone:
			case <-time.After(patient):
				t.Fatal("the upstream's connection is still there")
			}
			if n := u.connections(); n != 1 {
				t.Errorf("%d connections, want all on one", n)
			}
		})
	}
}

func TestStalledClientClosesUpstreamConnection(t *testing.T) {
	u := script(t, func(c *peer, _ int) {
		c.request()
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
		piece := make([]byte, 64<<10)
		for {
			if _, err := c.Write(piece); err != nil {
				return
			}
		}
	})
	p := newPool(t, Config{Address: u.address})
	f := newFront(t, p, func(w http.ResponseWriter, _ *http.Request) Head {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		return Head{}
	})
	c := dialFront(t, f)
	c.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r := f.result(t); fault(r.err) != FaultClient || !r.Sent {
		t.Errorf("outcome: got %+v, want a fault of the client", r)
	}
	if s := settled(t, p); s.Open != 0 {
		t.Errorf("the connection was kept: %+v", s)
	}
}

func TestDisconnectsLeakNoGoroutine(t *testing.T) {
	u := script(t, func(c *peer, _ int) { _ = c.gone() })
	p := newPool(t, Config{Address: u.address, MaxConns: 200})
	f := newFront(t, p, nil)
	before := runtime.NumGoroutine()
	var clients []*peer
	for i := range 150 {
		c := dialFront(t, f)
		if i%2 == 0 {
			c.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		} else {
			c.say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
		}
		clients = append(clients, c)
	}
	await.True(t, "150 connections", func() bool { return p.Stats().Open == 150 })
	for _, c := range clients {
		_ = c.Close()
	}
	for range clients {
		f.result(t)
	}
	await.True(t, "as few goroutines as before", func() bool { return runtime.NumGoroutine() <= before+2 })
	if s := settled(t, p); s.Open != 0 {
		t.Errorf("connections were kept: %+v", s)
	}
}
