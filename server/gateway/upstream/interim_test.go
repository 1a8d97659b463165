package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEarlyHintsAreForwarded(t *testing.T) {
	hint := "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\n"
	u := script(t, always(hint+"HTTP/1.1 102 Processing\r\n\r\n"+hint+"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Final: 1\r\n\r\nok"))
	f := newFront(t, newPool(t, Config{Address: u.address}), func(w http.ResponseWriter, _ *http.Request) Head {
		w.Header().Set("X-Limit", "10")
		return Head{}
	})
	for range 2 {
		var got []string
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
				got = append(got, fmt.Sprint(status, h))
				return nil
			},
		})
		r, err := http.NewRequestWithContext(ctx, "GET", f.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := f.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if want := []string{"103 map[Link:[</a.css>]]", "102 map[]", "103 map[Link:[</a.css>]]"}; !slices.Equal(got, want) {
			t.Errorf("interim responses: got %q, want %q", got, want)
		}
		if res.Header.Get("Link") != "" || res.Header.Get("X-Limit") != "10" || res.Header.Get("X-Final") != "1" {
			t.Errorf("final headers: got %v, want X-Final and X-Limit and no Link", res.Header)
		}
	}
}

func TestHTTP10ClientsGetNoInterimResponse(t *testing.T) {
	u := script(t, always("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	f := newFront(t, newPool(t, Config{Address: u.address}), nil)
	c := dialFront(t, f)
	c.say("GET / HTTP/1.0\r\n\r\n")
	if res := c.response("GET"); res.StatusCode != 200 {
		t.Errorf("got %s first, want 200", res.Status)
	}
}

func TestSwitchingProtocolsIsRefused(t *testing.T) {
	u := script(t, always("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
	p := newPool(t, Config{Address: u.address})
	f := newFront(t, p, nil)
	res, _ := f.get(t, "/")
	r := f.result(t)
	if res.StatusCode != 502 || fault(r.err) != FaultUpgrade || r.Sent || r.Repeatable {
		t.Errorf("got %s, %+v; want 502, a fault of upgrade and nothing sent", res.Status, r)
	}
	if s := settled(t, p); s.Open != 0 {
		t.Errorf("the connection was kept: %+v", s)
	}
}

func TestInterimResponsesAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		interim string
		want    error
	}{
		"many":  {"HTTP/1.1 100 Continue\r\n\r\n", errTooManyInterim},
		"large": {"HTTP/1.1 103 Early Hints\r\nX: " + strings.Repeat("x", 1000) + "\r\n\r\n", errHeadSize},
	} {
		t.Run(name, func(t *testing.T) {
			u := script(t, always(strings.Repeat(tt.interim, 40)+"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
			f := newFront(t, newPool(t, Config{Address: u.address, MaxHeaderBytes: 8 << 10}), nil)
			res, _ := f.get(t, "/")
			if r := f.result(t); res.StatusCode != 502 || fault(r.err) != FaultResponse || !strings.Contains(r.err.Error(), tt.want.Error()) {
				t.Errorf("got %s, %v; want 502 and %v", res.Status, r.err, tt.want)
			}
		})
	}
}

// expecting sends a request that waits for 100 Continue.
func expecting(c *peer, length int) {
	c.say(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", length))
}

func TestClientGets100ContinueWhenUpstreamSendsIt(t *testing.T) {
	asked := make(chan struct{})
	u := script(t, func(c *peer, _ int) {
		for {
			if head := c.head(); !strings.Contains(head, "\r\nExpect: 100-continue\r\n") || !strings.Contains(head, "\r\nContent-Length: 5\r\n") {
				return
			}
			<-asked
			c.say("HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
			body := make([]byte, 5)
			if _, err := io.ReadFull(c.in, body); err != nil {
				return
			}
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + string(body))
		}
	})
	p := newPool(t, Config{Address: u.address, ExpectTimeout: patient})
	f := newFront(t, p, nil)
	c := dialFront(t, f)
	for i := range 2 {
		expecting(c, 5)
		if i == 0 {
			// The client must not get 100 Continue before the upstream sends it.
			_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if b, err := c.in.Peek(1); err == nil {
				t.Fatalf("the client got %q before the upstream said anything", b)
			}
			_ = c.SetReadDeadline(time.Now().Add(patient))
			close(asked)
		}
		if res := c.response("POST"); res.StatusCode != 103 {
			t.Fatalf("got %s, want 103", res.Status)
		}
		if res := c.response("POST"); res.StatusCode != 100 {
			t.Fatalf("got %s, want 100", res.Status)
		}
		c.say("hello")
		res := c.response("POST")
		if body, err := io.ReadAll(res.Body); res.StatusCode != 200 || string(body) != "hello" {
			t.Fatalf("got %s %q %v, want 200 hello", res.Status, body, err)
		}
	}
	if s := settled(t, p); s.Dials != 1 || s.Idle != 1 {
		t.Errorf("got %+v, want one connection, used again", s)
	}
}

func TestUnwantedBodyIsNotRequestedFromClient(t *testing.T) {
	t.Parallel()
	u := script(t, func(c *peer, _ int) {
		c.head()
		c.say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno!")
		if b, _ := io.ReadAll(c.in); len(b) > 0 {
			t.Errorf("the upstream got %q of a body that it did not ask for", b)
		}
	})
	p := newPool(t, Config{Address: u.address, ExpectTimeout: patient})
	// net/http does not notice that a wrapped body was not read.
	for name, wrap := range map[string]bool{"plain": false, "wrapped": true} {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, p, func(_ http.ResponseWriter, r *http.Request) Head {
				if wrap {
					r.Body = http.MaxBytesReader(nil, r.Body, 1<<20)
				}
				return Head{}
			})
			c := dialFront(t, f)
			expecting(c, 100_000)
			res := c.response("POST")
			if body, err := io.ReadAll(res.Body); res.StatusCode != 413 || string(body) != "no!" || !res.Close {
				t.Errorf("got %s %q %v, closing %v; want 413 no! and the connection closed", res.Status, body, err, res.Close)
			}
			if r := f.result(t); r.err != nil {
				t.Errorf("outcome: %+v", r)
			}
			if err := c.gone(); err != nil {
				t.Errorf("the client's connection ended with %v, want an orderly end", err)
			}
		})
	}
	if s := settled(t, p); s.Open != 0 {
		t.Errorf("the upstream's connection was kept: %+v", s)
	}
}

func TestBodyIsSentWithout100Continue(t *testing.T) {
	u := script(t, func(c *peer, _ int) {
		for {
			r := c.request() // reads the body without sending 100 Continue
			if r == nil {
				return
			}
			body, _ := io.ReadAll(r.Body)
			c.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		}
	})
	p := newPool(t, Config{Address: u.address, ExpectTimeout: 10 * time.Millisecond})
	f := newFront(t, p, nil)
	c := dialFront(t, f)
	expecting(c, 5)
	if res := c.response("POST"); res.StatusCode != 100 {
		t.Fatalf("got %s, want 100", res.Status)
	}
	c.say("hello")
	res := c.response("POST")
	if body, _ := io.ReadAll(res.Body); string(body) != "hello" {
		t.Errorf("got %s %q, want hello", res.Status, body)
	}
	if s := settled(t, p); s.Idle != 1 {
		t.Errorf("got %+v, want the connection kept", s)
	}
}

func TestCloseInsteadOf100ContinueIsBroken(t *testing.T) {
	u := script(t, func(c *peer, _ int) { c.head() })
	f := newFront(t, newPool(t, Config{Address: u.address, ExpectTimeout: patient}), nil)
	c := dialFront(t, f)
	expecting(c, 5)
	if res := c.response("POST"); res.StatusCode != 502 || !res.Close {
		t.Errorf("got %s, closing %v; want 502 and the connection closed, as the body may still come", res.Status, res.Close)
	}
	if r := f.result(t); fault(r.err) != FaultBroken || r.Repeatable {
		t.Errorf("outcome: got %+v, want broken and, for POST, not repeatable", r)
	}
}
