package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

// patient is how long tests wait for an event that must happen.
const patient = time.Minute

func newPool(t testing.TB, c Config) *Pool {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// A rawUpstream is a listener whose connections are served by a script, each with the number of the connection.
type rawUpstream struct {
	address string
	mu      sync.Mutex
	conns   int
}

// A script serves a connection of an upstream. When it returns, the connection is closed. To hang, it waits for the end
// of the test.
func script(t testing.TB, serve func(c *peer, n int)) *rawUpstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &rawUpstream{address: l.Addr().String()}
	over := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			u.mu.Lock()
			u.conns++
			n := u.conns
			u.mu.Unlock()
			running.Go(func() {
				defer func() { _ = nc.Close() }()
				_ = nc.SetDeadline(time.Now().Add(patient))
				serve(&peer{Conn: nc, in: bufio.NewReader(nc), t: t, over: over}, n)
			})
		}
	})
	t.Cleanup(func() {
		close(over)
		_ = l.Close()
		running.Wait()
	})
	return u
}

func (u *rawUpstream) connections() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.conns
}

// A peer is one end of a connection, to which a test writes byte by byte.
type peer struct {
	net.Conn
	in   *bufio.Reader
	t    testing.TB
	over chan struct{}
}

// request reads a request with its body. It returns nil when the connection has ended.
func (p *peer) request() *http.Request {
	r, err := http.ReadRequest(p.in)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r
}

// head reads the head of a request as it is.
func (p *peer) head() string {
	var b strings.Builder
	for {
		line, err := p.in.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "\r\n" {
			return b.String()
		}
	}
}

func (p *peer) say(text string) { _, _ = io.WriteString(p.Conn, text) }

func (p *peer) hang() { <-p.over }

// gone waits until the other side has ended the connection, and returns how.
func (p *peer) gone() error {
	_, err := io.Copy(io.Discard, p.in)
	return err
}

// reset ends the connection with a RST.
func (p *peer) reset() {
	_ = p.Conn.(*net.TCPConn).SetLinger(0)
	_ = p.Close()
}

// always responds to each request with the same.
func always(response string) func(c *peer, n int) {
	return func(c *peer, _ int) {
		for c.request() != nil {
			c.say(response)
		}
	}
}

// A front is a real server of net/http that forwards everything to a pool, as a gateway would.
type front struct {
	*httptest.Server
	results chan result
}

type result struct {
	Outcome
	err error
}

// newFront starts a front. If change is not nil, it may change requests, and returns the head to send.
func newFront(t testing.TB, p *Pool, change func(http.ResponseWriter, *http.Request) Head) *front {
	t.Helper()
	f := &front{results: make(chan result, 10_000)}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var h Head
		if change != nil {
			h = change(w, r)
		}
		out, err := p.Forward(r.Context(), w, r, h)
		f.results <- result{out, err}
		switch {
		case err == nil:
		case out.Sent:
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("X-Fault", fault(err).String())
			w.WriteHeader(status(err))
		}
	}))
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.Config.Protocols = new(http.Protocols)
	f.Config.Protocols.SetHTTP1(true)
	f.Config.Protocols.SetUnencryptedHTTP2(true)
	f.Start()
	t.Cleanup(f.Close)
	return f
}

// result returns the result of a request.
func (f *front) result(t testing.TB) result {
	t.Helper()
	select {
	case r := <-f.results:
		return r
	case <-time.After(patient):
		t.Fatal("Forward did not return")
		return result{}
	}
}

// fault returns the fault of an error of Forward, 0 if there is none.
func fault(err error) Fault {
	var failed *Error
	if errors.As(err, &failed) {
		return failed.Fault
	}
	return 0
}

// status returns the status of the response to an error of Forward.
func status(err error) int {
	var failed *Error
	if errors.As(err, &failed) {
		return failed.Status()
	}
	return 0
}

// dialFront connects a client that writes byte by byte.
func dialFront(t testing.TB, f *front) *peer {
	t.Helper()
	c, err := net.Dial("tcp", f.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patient))
	return &peer{Conn: c, in: bufio.NewReader(c), t: t}
}

// response reads a response, without its body.
func (p *peer) response(method string) *http.Response {
	p.t.Helper()
	r, err := http.ReadResponse(p.in, &http.Request{Method: method})
	if err != nil {
		p.t.Fatalf("read the response: %v", err)
	}
	return r
}

// get requests a path from the front, and returns the response and its body.
func (f *front) get(t testing.TB, path string) (*http.Response, string) {
	t.Helper()
	return f.do(t, http.MethodGet, path, nil, nil)
}

func (f *front) do(t testing.TB, method, path string, body io.Reader, h http.Header) (*http.Response, string) {
	t.Helper()
	res, text, err := f.try(t, method, path, body, h)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return res, text
}

func (f *front) try(t testing.TB, method, path string, body io.Reader, h http.Header) (*http.Response, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, f.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range h {
		r.Header[name] = values
	}
	res, err := f.Client().Do(r)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res, string(text), err
}

// settled waits until a pool has no connection in use, and returns its stats.
func settled(t testing.TB, p *Pool) Stats {
	t.Helper()
	await.True(t, "no connection in use", func() bool { s := p.Stats(); return s.Open == s.Idle })
	return p.Stats()
}
