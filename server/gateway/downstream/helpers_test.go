package downstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/server/gateway/internal/rawhttp"
)

const patience = rawhttp.Patience

// A site is a server in a test.
type site struct {
	*Server
	addr  string
	log   *logbook.Book
	ended *counter
}

// A counter counts connections that have ended.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add() {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
}

func (c *counter) get() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// start serves until the test ends.
func start(t testing.TB, h http.HandlerFunc, change ...func(*Server)) *site {
	t.Helper()
	book := &logbook.Book{}
	errorLog := log.New(book, "", 0)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	ended := &counter{}
	s := &Server{
		Handler: h, HeaderTimeout: patience, IdleTimeout: patience, WriteTimeout: patience, ErrorLog: errorLog,
		NetHTTP: &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Rest", "yes")
				h(w, r)
			}),
			ErrorLog: errorLog, Protocols: protocols, ReadHeaderTimeout: patience,
			DisableGeneralOptionsHandler: true,
		},
		onEnd: ended.add,
	}
	for _, c := range change {
		c(s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		select {
		case err := <-done:
			if !errors.Is(err, http.ErrServerClosed) {
				t.Errorf("Serve: %v, want %v", err, http.ErrServerClosed)
			}
		case <-time.After(patience):
			t.Error("Serve has not ended")
		}
	})
	return &site{Server: s, addr: l.Addr().String(), log: book, ended: ended}
}

// reference serves with net/http alone.
func reference(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), DisableGeneralOptionsHandler: true, Protocols: protocols}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

func dial(t testing.TB, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	return rawhttp.Dial(t, addr)
}

func send(t testing.TB, c net.Conn, text string) {
	t.Helper()
	rawhttp.Send(t, c, text)
}

func lines(l ...string) string { return rawhttp.Lines(l...) }

func get(path string, more ...string) string {
	return lines(append([]string{"GET " + path + " HTTP/1.1", "Host: example.com"}, more...)...)
}

// A clientResponse is a response as a client received it.
type clientResponse struct {
	status  int
	header  http.Header
	length  int64
	coding  []string
	body    string
	trailer http.Header
	close   bool
	err     error // of reading the body
}

func receive(t testing.TB, r *bufio.Reader, method string) clientResponse {
	t.Helper()
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("read the response: %v", err)
	}
	body, err := io.ReadAll(res.Body)
	return clientResponse{
		status: res.StatusCode, header: res.Header, length: res.ContentLength, coding: res.TransferEncoding,
		body: string(body), trailer: res.Trailer, close: res.Close, err: err,
	}
}

// wantEnd checks that the connection ends.
func wantEnd(t testing.TB, r *bufio.Reader) {
	t.Helper()
	if b, err := r.Peek(1); err == nil {
		t.Errorf("more comes: %q, want the end", b)
	} else if isTimeout(err) {
		t.Errorf("the connection is still open, want it closed")
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// wait waits for a channel.
func wait[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("not after %v: %s", patience, what)
	}
	return v
}

func withTLS(t testing.TB) func(*Server) {
	t.Helper()
	certificate := newCertificate(t)
	return func(s *Server) { s.NetHTTP.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}} }
}

func shutdown(t testing.TB, s *Server) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		done <- s.Shutdown(ctx)
	}()
	return done
}

func newReader(c net.Conn) *bufio.Reader { return bufio.NewReader(c) }
