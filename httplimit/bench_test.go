package httplimit_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/rules"
)

// closed denies all but the first request of each client.
var closed = perIP("1/h")

// otherPath is a rule for a path that no request has.
var otherPath = []rules.Rule{{ID: "a", Key: byIP, When: onPath("/other"), Limits: enginetest.Limits("1/s")}}

// bare429 is the least that a server can do to reject.
var bare429 = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })

// BenchmarkReject is of 64 connections whose requests are all denied, beside a handler that does nothing but write 429.
func BenchmarkReject(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		flood(b, &http.Server{Handler: bare429})
	})
	b.Run("headgate", func(b *testing.B) {
		flood(b, &http.Server{Handler: newTimedGate(b, closed, httplimit.Config{}).limit(ok)})
	})
}

// flood sends b.N requests over 64 connections, each as soon as the answer to the one before is there.
func flood(b *testing.B, server *http.Server) {
	const connections = 64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	defer serving.Wait()
	defer shut(server)
	conns := make([]*lineConn, connections)
	for i := range conns {
		conns[i] = dial(b, listener.Addr().String())
		defer shut(conns[i])
		conns[i].ask(b) // the one that is not denied, and what comes only once
	}
	b.ReportAllocs()
	b.ResetTimer()
	var all sync.WaitGroup
	for i, c := range conns {
		n := b.N / connections
		if i < b.N%connections {
			n++
		}
		all.Go(func() {
			for range n {
				c.ask(b)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

// A lineConn is a client that does no more than it must, so that it is the server that is measured.
type lineConn struct {
	net.Conn
	in *bufio.Reader
}

func dial(b testing.TB, address string) *lineConn {
	b.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	return &lineConn{Conn: conn, in: bufio.NewReaderSize(conn, 4096)}
}

var plainRequest = []byte("GET /some/path HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")

// ask sends a request and reads the answer.
func (c *lineConn) ask(b testing.TB) {
	if _, err := c.Write(plainRequest); err != nil {
		b.Error(err)
		return
	}
	length := 0
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			b.Error(err)
			return
		}
		if len(line) <= 2 {
			break
		}
		if text, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(text)))
		}
	}
	if _, err := c.in.Discard(length); err != nil && err != io.EOF {
		b.Error(err)
	}
}

// A scrap is a ResponseWriter that throws everything away.
type scrap struct {
	header http.Header
	status int
	body   []byte
}

func (s *scrap) Header() http.Header         { return s.header }
func (s *scrap) WriteHeader(code int)        { s.status = code }
func (s *scrap) Write(p []byte) (int, error) { s.body = append(s.body[:0], p...); return len(p), nil }

// BenchmarkHandler is of what the middleware itself costs a request.
func BenchmarkHandler(b *testing.B) {
	for _, bb := range []struct {
		name  string
		rules []rules.Rule
	}{
		{"no rule", nil},
		{"another path", otherPath},
		{"allowed", perIP("1000000000/s")},
		{"allowed, three limits", perIP("1000000000/s", "1000000000/m", "1000000000/h")},
		{"rejected", closed},
	} {
		b.Run(bb.name, func(b *testing.B) {
			h := newTimedGate(b, bb.rules, httplimit.Config{}).limit(ok)
			r := bareRequest(b)
			w := &scrap{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}
		})
	}
}

func bareRequest(t testing.TB) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(plainRequest)))
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "192.0.2.1:1234"
	return r.WithContext(t.Context())
}

// BenchmarkServer is of one connection to a server without a network, so that it is the server's own time that is
// measured.
func BenchmarkServer(b *testing.B) {
	rejects := func(b *testing.B) http.Handler { return newTimedGate(b, closed, httplimit.Config{}).limit(ok) }
	for _, bb := range []struct {
		name    string
		handler func(b *testing.B) http.Handler
	}{
		{"bare 429", func(*testing.B) http.Handler { return bare429 }},
		{"rejected", rejects},
		{"bare 200", func(*testing.B) http.Handler { return ok }},
		{"allowed", func(b *testing.B) http.Handler {
			return newTimedGate(b, perIP("1000000000/s"), httplimit.Config{}).limit(ok)
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			server := &http.Server{Handler: bb.handler(b)}
			conn := &repeating{left: b.N, done: make(chan struct{})}
			b.ReportAllocs()
			b.ResetTimer()
			_ = server.Serve(&oneListener{conn: conn})
			<-conn.done
		})
	}
}

// repeating is a connection on which the same request comes again and again.
type repeating struct {
	net.Conn
	left int
	rest []byte
	done chan struct{}
	once sync.Once
}

func (c *repeating) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		if c.left == 0 {
			return 0, io.EOF
		}
		c.left--
		c.rest = plainRequest
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *repeating) Write(p []byte) (int, error) { return len(p), nil }
func (c *repeating) Close() error                { c.once.Do(func() { close(c.done) }); return nil }
func (c *repeating) LocalAddr() net.Addr         { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
func (c *repeating) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1234}
}
func (c *repeating) SetDeadline(time.Time) error      { return nil }
func (c *repeating) SetReadDeadline(time.Time) error  { return nil }
func (c *repeating) SetWriteDeadline(time.Time) error { return nil }

// oneListener accepts one connection.
type oneListener struct{ conn net.Conn }

func (l *oneListener) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	return nil, io.EOF
}
func (l *oneListener) Close() error   { return nil }
func (l *oneListener) Addr() net.Addr { return &net.TCPAddr{} }
