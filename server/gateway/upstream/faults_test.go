package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestUnreachableUpstreamIs502(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	p := newPool(t, Config{Address: address})
	f := newFront(t, p, nil)
	res, _ := f.do(t, "POST", "/", strings.NewReader("body"), nil)
	if r := f.result(t); res.StatusCode != 502 || fault(r.err) != FaultDial || r.Sent || !r.Repeatable {
		t.Errorf("got %s, %+v; want 502, a fault of dialling, and repeatable as nothing was sent", res.Status, r)
	}
	if s := p.Stats(); s.DialErrors != 1 || s.Open != 0 {
		t.Errorf("got %+v, want one failure and nothing open", s)
	}
}

func TestClosedConnectionIsNotAResponse(t *testing.T) {
	up := true
	dial := pipes(t, nil)
	p := newPool(t, Config{Address: "a:80", Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if !up {
			return nil, errors.New("refused")
		}
		return dial(ctx, network, address)
	}})
	for range 10 {
		if _, err := get(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	up = false
	p.mu.Lock()
	p.idle[0].closeNetConn()
	p.mu.Unlock()
	for _, method := range []string{"POST", "GET"} {
		out, err := p.Forward(t.Context(), httptest.NewRecorder(), httptest.NewRequest(method, "/", nil), Head{})
		if want := (Outcome{Repeatable: true}); fault(err) != FaultDial || out != want {
			t.Errorf("%s: got %+v, %v; want an Outcome that is only Repeatable", method, out, err)
		}
	}
}

func TestDialTimeoutIs504(t *testing.T) {
	p := newPool(t, Config{Address: "a:80", DialTimeout: 10 * time.Millisecond, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	f := newFront(t, p, nil)
	res, _ := f.get(t, "/")
	if r := f.result(t); res.StatusCode != 504 || fault(r.err) != FaultDial || !r.Repeatable {
		t.Errorf("got %s, %+v; want 504, a fault of dialling, repeatable", res.Status, r)
	}
}

func TestRepeatableBodyCanBeReadAgain(t *testing.T) {
	dead := newPool(t, Config{Address: "a:80", Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no route")
	}})
	u := script(t, func(c *peer, _ int) {
		for r := c.request(); r != nil; r = c.request() {
			body, _ := io.ReadAll(r.Body)
			c.say("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + string(body))
			return
		}
	})
	alive := newPool(t, Config{Address: u.address})
	for name, body := range map[string]io.Reader{
		"whole": strings.NewReader("hello"), "streamed": io.MultiReader(strings.NewReader("hello")), "none": nil,
	} {
		r := httptest.NewRequest("POST", "/", body)
		w := httptest.NewRecorder()
		out, err := dead.Forward(context.Background(), w, r, Head{})
		if err == nil || !out.Repeatable {
			t.Fatalf("%s: got %+v, %v; want an error and repeatable", name, out, err)
		}
		want := "hello"
		if body == nil {
			want = ""
		}
		if _, err := alive.Forward(context.Background(), w, r, Head{}); err != nil || w.Body.String() != want {
			t.Errorf("%s: then got %q, %v; want %q", name, w.Body, err, want)
		}
	}
}

func TestSlowHeadIs504(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]string{"nothing": "", "half a head": "HTTP/1.1 200 OK\r\nA: b"} {
		for _, timeout := range []time.Duration{5 * time.Millisecond, 100 * time.Millisecond} { // below and above patience
			for _, body := range []io.Reader{nil, strings.NewReader("small"), io.MultiReader(strings.NewReader("streamed"))} {
				u := script(t, func(c *peer, _ int) {
					c.request()
					c.say(say)
					c.hang()
				})
				p := newPool(t, Config{Address: u.address, HeaderTimeout: timeout})
				f := newFront(t, p, nil)
				method := "GET"
				if body != nil {
					method = "POST"
				}
				began := time.Now()
				res, _ := f.do(t, method, "/", body, nil)
				r := f.result(t)
				if res.StatusCode != 504 || fault(r.err) != FaultTimeout || r.Sent || r.Repeatable || !isTimeout(r.err) {
					t.Errorf("%s, %v: got %s, %+v; want 504, FaultTimeout and not Repeatable", name, timeout, res.Status, r)
				}
				if took := time.Since(began); took < timeout {
					t.Errorf("%s: took %v, want at least %v", name, took, timeout)
				}
				if s := settled(t, p); s.Open != 0 {
					t.Errorf("%s: the connection was kept: %+v", name, s)
				}
			}
		}
	}
}

// cutOff are ways in which a response breaks off.
var cutOff = map[string]func(c *peer){
	"ends":   func(*peer) {},
	"resets": func(c *peer) { c.reset() },
	"hangs":  func(c *peer) { c.hang() },
}

func TestTruncatedResponseNeverLooksComplete(t *testing.T) {
	for how, stop := range cutOff {
		for name, begin := range map[string]string{
			"a length that is too long":   "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
			"a long body":                 "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("x", 500_000),
			"chunks":                      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
			"chunks without a last line":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n0\r\n",
			"chunks, within the trailers": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n0\r\nX: y\r\n",
		} {
			t.Run(how+"/"+name, func(t *testing.T) {
				u := script(t, func(c *peer, _ int) {
					c.request()
					c.say(begin)
					stop(c)
				})
				stall, want := patient, FaultBroken
				if how == "hangs" {
					stall, want = 50*time.Millisecond, FaultTimeout
				}
				p := newPool(t, Config{Address: u.address, StallTimeout: stall})
				f := newFront(t, p, nil)
				_, body, err := f.try(t, "GET", "/", nil, nil)
				if err == nil {
					t.Errorf("the client took %q for complete", body)
				}
				r := f.result(t)
				if fault(r.err) != want || r.Repeatable {
					t.Errorf("outcome: got %+v, want the fault %v", r, want)
				}
				if s := settled(t, p); s.Open != 0 {
					t.Errorf("the connection was kept: %+v", s)
				}
			})
		}
	}
}

func TestResetBeforeResponseHeadIs502(t *testing.T) {
	for how, stop := range cutOff {
		if how == "hangs" {
			continue
		}
		for _, say := range []string{"", "HTTP/1.1 200 OK\r\nA"} {
			u := script(t, func(c *peer, _ int) {
				c.request()
				c.say(say)
				stop(c)
			})
			f := newFront(t, newPool(t, Config{Address: u.address}), nil)
			res, _ := f.get(t, "/")
			if r := f.result(t); res.StatusCode != 502 || fault(r.err) != FaultBroken || r.Sent || r.Retried {
				t.Errorf("%s after %q: got %s, %+v; want 502, and no retry as the connection was new", how, say, res.Status, r)
			}
		}
	}
}

func TestMalformedResponseIsA502(t *testing.T) {
	for _, response := range []string{
		"SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 9000) + "\r\n\r\n", strings.Repeat("x", 9000), strings.Repeat("A: b\r\n", 2000),
	} {
		u := script(t, always(response))
		p := newPool(t, Config{Address: u.address, MaxHeaderBytes: 8 << 10})
		f := newFront(t, p, nil)
		res, _ := f.get(t, "/")
		if r := f.result(t); res.StatusCode != 502 || fault(r.err) != FaultResponse || r.Sent {
			t.Errorf("%.40q: got %s, %+v; want 502, a fault of the response", response, res.Status, r)
		}
		if len(res.Header["A"]) > 0 || res.Header.Get("X-Fault") == "" {
			t.Errorf("%.40q: its headers are in our response: %v", response, res.Header)
		}
		if s := settled(t, p); s.Open != 0 {
			t.Errorf("%.40q: the connection was kept: %+v", response, s)
		}
	}
}

func TestLargeHeadWithinLimitPasses(t *testing.T) {
	value := strings.Repeat("x", 100_000)
	u := script(t, always("HTTP/1.1 200 OK\r\nX-Large: "+value+"\r\nContent-Length: 2\r\n\r\nok"))
	f := newFront(t, newPool(t, Config{Address: u.address}), nil)
	for range 2 {
		if res, body := f.get(t, "/"); res.Header.Get("X-Large") != value || body != "ok" {
			t.Errorf("got %d bytes and %q", len(res.Header.Get("X-Large")), body)
		}
	}
}

func TestExtraBytesAreNotPartOfNextResponse(t *testing.T) {
	const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	for name, late := range map[string]bool{"at once": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan struct{}, 100)
			u := script(t, func(c *peer, _ int) {
				for c.request() != nil {
					if late {
						c.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
						c.say(evil)
					} else {
						c.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood" + evil)
					}
					sent <- struct{}{}
				}
			})
			p := newPool(t, Config{Address: u.address})
			f := newFront(t, p, nil)
			for range 20 {
				_, body := f.get(t, "/")
				if body != "good" {
					t.Fatalf("got %q of another response", body)
				}
				<-sent
			}
			if s := settled(t, p); s.Dials != 20 {
				t.Errorf("got %+v, want a new connection for each of 20 requests", s)
			}
		})
	}
}

func TestContextDeadlineIs504(t *testing.T) {
	u := script(t, func(c *peer, _ int) { _ = c.gone() })
	p := newPool(t, Config{Address: u.address})
	for _, wait := range []time.Duration{time.Nanosecond, 5 * time.Millisecond, 50 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		_, err := p.Forward(ctx, httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), Head{})
		cancel()
		if fault(err) != FaultTimeout || status(err) != 504 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: got %v, want a fault of time", wait, err)
		}
	}
	if s := settled(t, p); s.Open != 0 {
		t.Errorf("connections were kept: %+v", s)
	}
}

func TestUpstreamThatReadsNothingTimesOut(t *testing.T) {
	t.Parallel()
	u := script(t, func(c *peer, _ int) { c.hang() })
	for name, length := range map[string]int{"with the head": 1 << 20, "streamed": 64 << 20} {
		p := newPool(t, Config{Address: u.address, HeaderTimeout: 100 * time.Millisecond, StallTimeout: 100 * time.Millisecond, MaxBufferedBody: 1 << 20})
		r := httptest.NewRequest("PUT", "/", strings.NewReader(strings.Repeat("x", length)))
		_, err := p.Forward(context.Background(), httptest.NewRecorder(), r, Head{})
		if fault(err) != FaultTimeout {
			t.Errorf("%s: got %v, want a fault of time", name, err)
		}
		if s := settled(t, p); s.Open != 0 {
			t.Errorf("%s: the connection was kept: %+v", name, s)
		}
	}
}

func TestResponseWriterPanicLeaksNothing(t *testing.T) {
	u := script(t, always("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	p := newPool(t, Config{Address: u.address})
	for name, body := range map[string]io.Reader{"none": nil, "streamed": io.MultiReader(strings.NewReader("hello"))} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the panic was swallowed", name)
				}
			}()
			_, _ = p.Forward(context.Background(), panics{httptest.NewRecorder()}, httptest.NewRequest("POST", "/", body), Head{})
		}()
		if s := settled(t, p); s.Open != 0 {
			t.Errorf("%s: the connection was kept: %+v", name, s)
		}
	}
	w := httptest.NewRecorder()
	if _, err := p.Forward(context.Background(), w, httptest.NewRequest("GET", "/", nil), Head{}); err != nil || w.Body.String() != "ok" {
		t.Errorf("afterwards: got %q, %v", w.Body, err)
	}
}

type panics struct{ http.ResponseWriter }

func (panics) Write([]byte) (int, error) { panic("no") }
