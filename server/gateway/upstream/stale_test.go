package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

// oneEach serves one request on each of its first connections, and closes them without a response when it has read the
// next one. It behaves like an upstream that closes an idle connection just when a request arrives.
func oneEach(t *testing.T, first int, end func(c *peer), requests *atomic.Int32) *rawUpstream {
	return script(t, func(c *peer, n int) {
		for i := 0; ; i++ {
			r := c.request()
			if r == nil {
				return
			}
			requests.Add(1)
			if n <= first && i == 1 {
				end(c)
				return
			}
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
			if r.Method != http.MethodHead {
				c.say("ok")
			}
		}
	})
}

func TestIdempotentRequestIsResentOnStaleConnection(t *testing.T) {
	for _, tt := range []struct {
		method, body string
		header       http.Header
	}{
		{"GET", "", nil},
		{"HEAD", "", nil},
		{"OPTIONS", "", nil},
		{"TRACE", "", nil},
		{"PUT", "whole", nil},
		{"DELETE", "", nil},
		{"POST", "whole", http.Header{"Idempotency-Key": {"1"}}},
		{"POST", "", http.Header{"X-Idempotency-Key": {"1"}}},
	} {
		for how, end := range cutOff {
			if how == "hangs" {
				continue
			}
			t.Run(tt.method+" "+how, func(t *testing.T) {
				var requests atomic.Int32
				u := oneEach(t, 1, end, &requests)
				p := newPool(t, Config{Address: u.address})
				for i := range 2 {
					r := httptest.NewRequest(tt.method, "/", strings.NewReader(tt.body))
					if tt.body == "" {
						r.Body, r.ContentLength = http.NoBody, 0
					}
					if tt.header != nil {
						r.Header = tt.header
					}
					w := httptest.NewRecorder()
					out, err := p.Forward(context.Background(), w, r, Head{})
					if err != nil || w.Code != 200 || out.Retried != (i == 1) {
						t.Errorf("request %d: got %d, %+v, %v; want 200, retried %v", i, w.Code, out, err, i == 1)
					}
				}
				if s := p.Stats(); s.Retries != 1 || s.Dials != 2 || requests.Load() != 3 {
					t.Errorf("got %+v and %d requests, want 1 retry on a second connection, and 3 requests", s, requests.Load())
				}
			})
		}
	}
}

func TestProcessedRequestIsNotResent(t *testing.T) {
	for name, tt := range map[string]struct {
		method string
		body   io.Reader
		header http.Header
	}{
		"POST":                   {"POST", strings.NewReader("whole"), nil},
		"POST without body":      {"POST", nil, nil},
		"PATCH":                  {"PATCH", strings.NewReader("whole"), nil},
		"PUT of a streamed body": {"PUT", io.MultiReader(strings.NewReader("streamed")), nil},
		"POST of a streamed body, with a key": {
			"POST", io.MultiReader(strings.NewReader("streamed")), http.Header{"Idempotency-Key": {"1"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			u := oneEach(t, 1, func(*peer) {}, &requests)
			p := newPool(t, Config{Address: u.address})
			if _, err := p.Forward(context.Background(), httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), Head{}); err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(tt.method, "/", tt.body)
			if tt.header != nil {
				r.Header = tt.header
			}
			out, err := p.Forward(context.Background(), httptest.NewRecorder(), r, Head{})
			if fault(err) != FaultBroken || out.Retried || out.Repeatable || !out.Reused {
				t.Errorf("got %+v, %v; want a broken connection and no retry", out, err)
			}
			if s := p.Stats(); requests.Load() != 2 || s.Retries != 0 {
				t.Errorf("got %+v and %d requests, want no retry and 2 requests", s, requests.Load())
			}
		})
	}
}

func TestRequestIsResentOnceAndOnlyWithoutResponse(t *testing.T) {
	t.Run("once", func(t *testing.T) {
		u := script(t, func(c *peer, n int) {
			if c.request(); n == 1 {
				c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				c.request()
			}
		})
		p := newPool(t, Config{Address: u.address})
		for i, want := range []Fault{0, FaultBroken} {
			out, err := p.Forward(context.Background(), httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), Head{})
			if fault(err) != want || out.Retried != (i == 1) {
				t.Errorf("request %d: got %+v, %v; want fault %v", i, out, err, want)
			}
		}
		if n := u.connections(); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
	})
	t.Run("without response", func(t *testing.T) {
		u := script(t, func(c *peer, _ int) {
			c.request()
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			c.request()
			c.say("HTTP/1.1 2")
		})
		p := newPool(t, Config{Address: u.address})
		for i, want := range []Fault{0, FaultBroken} {
			out, err := p.Forward(context.Background(), httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), Head{})
			if fault(err) != want || out.Retried {
				t.Errorf("request %d: got %+v, %v; want fault %v and no retry", i, out, err, want)
			}
		}
	})
}

func TestClientIsWatchedOnSecondConnection(t *testing.T) {
	begun, gone := make(chan struct{}), make(chan struct{})
	u := script(t, func(c *peer, n int) {
		c.request()
		if n == 2 {
			close(begun)
			_ = c.gone()
			close(gone)
			return
		}
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		c.request()
		time.Sleep(3 * watchDelay) // so that it is watched on the first one already
	})
	p := newPool(t, Config{Address: u.address, HeaderTimeout: -1})
	f := newFront(t, p, nil)
	f.get(t, "/")
	f.result(t)
	c := dialFront(t, f)
	c.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	_ = c.Close()
	select {
	case <-gone:
	case <-time.After(patient):
		t.Fatal("the upstream's connection is still there")
	}
	if r := f.result(t); fault(r.err) != FaultClient || !r.Retried {
		t.Errorf("got %+v, want a fault of the client on the second connection", r)
	}
}

// unwritable is a connection that accepts one request and then nothing.
type unwritable struct {
	net.Conn
	writes int
}

func (u *unwritable) Write(b []byte) (int, error) {
	if u.writes++; u.writes > 1 {
		return 0, errors.New("no")
	}
	return u.Conn.Write(b)
}

func TestUnsentRequestIsAlwaysResent(t *testing.T) {
	dial := pipes(t, nil)
	p := newPool(t, Config{Address: "a:80", Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		return &unwritable{Conn: c}, err
	}})
	for i := range 3 {
		out, err := p.Forward(context.Background(), httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil), Head{})
		if err != nil || out.Retried != (i > 0) {
			t.Errorf("request %d: got %+v, %v; want it served, on another connection after the first", i, out, err)
		}
	}
}

func TestConnectionClosedByUpstreamIsNotReused(t *testing.T) {
	ended := make(chan struct{}, 10)
	for how, end := range cutOff {
		if how == "hangs" {
			continue
		}
		u := script(t, func(c *peer, _ int) {
			c.request()
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			if how == "ends" {
				_ = c.Conn.(*net.TCPConn).CloseWrite()
			} else {
				end(c)
			}
			ended <- struct{}{}
			_ = c.gone()
		})
		p := newPool(t, Config{Address: u.address})
		for i := range 5 {
			// A POST could not be sent again.
			out, err := p.Forward(context.Background(), httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader("x")), Head{})
			if err != nil || out.Retried || out.Reused {
				t.Errorf("%s, request %d: got %+v, %v; want it served on a new connection", how, i, out, err)
			}
			<-ended
			if how == "resets" {
				// The reset may take a moment to arrive.
				p.mu.Lock()
				var c *conn
				if len(p.idle) > 0 {
					c = p.idle[0]
				}
				p.mu.Unlock()
				if c != nil {
					await.True(t, "the reset has arrived", func() bool { return !c.isReusable() })
				}
			}
		}
		if s := p.Stats(); s.Retries != 0 || s.Stale != 4 {
			t.Errorf("%s: got %+v, want 4 stale ones noticed and no retry", how, s)
		}
	}
}

func TestKeepAliveTimeoutOfUpstreamIsUsed(t *testing.T) {
	u := script(t, always("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=1\r\n\r\nok"))
	p := newPool(t, Config{Address: u.address})
	if _, err := p.Forward(context.Background(), httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), Head{}); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if got, want := p.idle[0].idleTimeout, 750*time.Millisecond; got != want {
		t.Errorf("the connection is kept for %v, want %v", got, want)
	}
}
