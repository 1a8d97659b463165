package gateway

import (
	"bufio"
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

// readRequest reads a request of a fake upstream, with its body.
func readRequest(r *bufio.Reader) (*http.Request, error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, req.Body)
	return req, err
}

// If the upstream misbehaves, the client gets an error response, or notices that the response is incomplete.
func TestFailuresOfUpstreamsGet5xx(t *testing.T) {
	for name, tt := range map[string]struct {
		do      func(conn net.Conn, r *bufio.Reader)
		status  int  // 0 if there is no response at all
		cut     bool // the response is not complete
		timeout time.Duration
	}{
		"closes at once": {do: func(net.Conn, *bufio.Reader) {}, status: 502},
		"resets": {do: func(conn net.Conn, r *bufio.Reader) {
			_, _ = readRequest(r)
			_ = conn.(*net.TCPConn).SetLinger(0)
		}, status: 502},
		"sends nothing": {do: func(_ net.Conn, r *bufio.Reader) {
			_, _ = readRequest(r)
			_, _ = r.ReadByte()
		}, status: 504, timeout: 100 * time.Millisecond},
		"speaks another protocol":   {do: says("SSH-2.0-OpenSSH_9.2\r\n"), status: 502},
		"has an endless header":     {do: says("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"), status: 502},
		"has two lengths":           {do: says("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), status: 502},
		"has a negative length":     {do: says("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nab"), status: 502},
		"has length and chunks":     {do: says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"), status: 502},
		"closes in the header":      {do: says("HTTP/1.1 200 OK\r\nContent-Le"), status: 502},
		"switches unasked":          {do: says("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), status: 502},
		"promises more than it has": {do: says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"), status: 200, cut: true},
		"promises much more":        {do: says("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("x", 500_000)), status: 200, cut: true},
		"closes in the chunks":      {do: says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), status: 200, cut: true},
		"has bad chunks":            {do: says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n"), status: 200, cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := before(fake(t, tt.do))
			if tt.timeout > 0 {
				c.Routes[0].ResponseHeaderTimeout = tt.timeout
			}
			g := start(t, c)
			conn, r := dial(t, g)
			send(t, conn, lines("GET / HTTP/1.1", "Host: a.example"))
			a, err := tryReceive(r, "GET")
			if tt.cut {
				if err == nil {
					t.Errorf("the response looks complete: %d with %d bytes", a.status, len(a.body))
				}
				if a.status != 0 && a.status != tt.status {
					t.Errorf("status %d, want %d", a.status, tt.status)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wantProblem(t, a, tt.status)
			s := g.Stats()
			if s.Upstreams[0].Failed == 0 || s.Upstreams[0].LastErr == nil {
				t.Errorf("nothing is counted against the upstream: %+v", s.Upstreams[0])
			}
		})
	}
	t.Run("is not there", func(t *testing.T) {
		g := start(t, before(refusing(t)))
		wantProblem(t, get(t, g, "/"), http.StatusBadGateway)
	})
	t.Run("cannot be connected to in time", func(t *testing.T) {
		c := before("http://192.0.2.1:80") // for documentation, unreachable
		c.Routes[0].DialTimeout = 50 * time.Millisecond
		g := start(t, c)
		if a := get(t, g, "/"); a.status != http.StatusGatewayTimeout && a.status != http.StatusBadGateway {
			t.Errorf("status %d, want 504, or 502 where there is no such network", a.status)
		}
	})
}

// Clients learn little about errors of an upstream, and operators find them without an access log.
func TestFailedUpstreamRequestsAreLoggedOnceASecond(t *testing.T) {
	const requests = 20
	var book logBook
	c := before(refusing(t))
	c.Logger = book.logger()
	g := start(t, c)
	began := time.Now()
	for range requests {
		wantProblem(t, get(t, g, "/"), http.StatusBadGateway)
	}
	took := time.Since(began)
	lines := book.each(t, "request failed at the upstream")
	if most := int(took/time.Second) + 2; len(lines) == 0 || len(lines) > most {
		t.Fatalf("%d lines for %d requests in %v, want 1 to %d:\n%s", len(lines), requests, took, most, &book)
	}
	logged := float64(len(lines))
	for _, line := range lines {
		if text, _ := line["err"].(string); !strings.Contains(text, "refused") || line["upstream"] != c.Routes[0].Upstreams[0].URL || line["route"] != "/" {
			t.Errorf("%v: want the route, the upstream, and that it refuses", line)
		}
		logged += line["more"].(float64)
	}
	if logged > requests {
		t.Errorf("%v failures are logged, want at most the %d requests", logged, requests)
	}
}

// says responds to each request with a text and closes the connection.
func says(text string) func(conn net.Conn, r *bufio.Reader) {
	return func(conn net.Conn, r *bufio.Reader) {
		if _, err := readRequest(r); err == nil {
			_, _ = io.WriteString(conn, text)
		}
	}
}

// Bytes that an upstream sends after its response are never part of another response.
func TestExcessResponseBytesNeverReachAnotherClient(t *testing.T) {
	var n atomic.Int32
	url := fake(t, func(conn net.Conn, r *bufio.Reader) {
		for {
			if _, err := readRequest(r); err != nil {
				return
			}
			n.Add(1)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
		}
	})
	g := start(t, before(url))
	for range 20 {
		if a := get(t, g, "/"); a.status != 200 || a.body != "ok" {
			t.Fatalf("got %d %q, want ok", a.status, a.body)
		}
	}
	if n.Load() != 20 {
		t.Errorf("the upstream saw %d requests, want 20", n.Load())
	}
}

func TestTotalTimeoutBoundsARequest(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 2)
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			_, _ = io.WriteString(w, "begun")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
		gone <- struct{}{}
	})
	c := before(up.URL)
	c.Routes[0].TotalTimeout = time.Second // in which it reaches the upstream also on a busy machine
	g := start(t, c)
	wantProblem(t, get(t, g, "/"), http.StatusGatewayTimeout)
	conn, r := dial(t, g)
	send(t, conn, lines("GET /begun HTTP/1.1", "Host: a.example"))
	if a, err := tryReceive(r, "GET"); err == nil {
		t.Errorf("the response looks complete: %+v", a)
	}
	for range 2 {
		select {
		case <-gone:
		case <-time.After(patience):
			t.Fatal("the upstream's request was not canceled")
		}
	}
}

func TestDisconnectCancelsUpstreamRequest(t *testing.T) {
	began, gone := make(chan struct{}), make(chan struct{})
	up := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(gone)
	})
	c := before(up.URL)
	var seen atomic.Pointer[Observation]
	c.Observe = func(o *Observation) { one := *o; seen.Store(&one) }
	g := start(t, c)
	conn, _ := dial(t, g)
	send(t, conn, lines("GET / HTTP/1.1", "Host: a.example"))
	<-began
	_ = conn.Close()
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("the upstream's request was not canceled")
	}
	await.True(t, "the request is over", func() bool { return seen.Load() != nil })
	if o := seen.Load(); o.Status != 499 || o.Err == nil {
		t.Errorf("observed %+v, want 499", o)
	}
	if s := g.Stats(); s.Upstreams[0].Failed != 0 {
		t.Errorf("it is counted against the upstream: %+v", s.Upstreams[0])
	}
}

func TestUpstreamOnAUnixSocket(t *testing.T) {
	path := t.TempDir() + "/up.sock"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) }))
	up.Listener = l
	up.Start()
	defer up.Close()
	front := t.TempDir() + "/front.sock"
	c := before("unix:" + path)
	c.Listeners = []Listener{{}, {Address: "unix:" + front}}
	g := start(t, c)
	if a := get(t, g, "/x"); a.status != 200 || a.body != "/x" {
		t.Errorf("got %d %q", a.status, a.body)
	}
	conn, err := net.Dial("unix", front)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	send(t, conn, lines("GET /y HTTP/1.1", "Host: a.example"))
	if a := receive(t, bufio.NewReader(conn), "GET"); a.status != 200 || a.body != "/y" {
		t.Errorf("by a socket of Unix: got %d %q", a.status, a.body)
	}
}
