package service_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/service"
)

// patience is how long tests wait for an event, even on a busy machine.
const patience = time.Minute

// start serves a handler until the test ends, and returns the server, its address, and what Serve returns.
func start(t *testing.T, c service.HTTPConfig) (*service.HTTPServer, string, chan error) {
	t.Helper()
	c.Logger = slog.New(slog.DiscardHandler)
	s, err := service.NewHTTP(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		done <- s.Serve(l)
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ctx)
		<-ended
	})
	return s, l.Addr().String(), done
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func ask(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
}

// answered reads the status of the next response.
func answered(t *testing.T, conn net.Conn) int {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	return r.StatusCode
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

func TestExcessConnectionsAreClosed(t *testing.T) {
	arrived, release := make(chan struct{}, 100), make(chan struct{})
	s, addr, _ := start(t, service.HTTPConfig{MaxConns: 2, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case arrived <- struct{}{}:
		default:
		}
		<-release
	})})
	first, second := dial(t, addr), dial(t, addr)
	for _, conn := range []net.Conn{first, second} {
		ask(t, conn)
		<-arrived
	}
	if third, err := net.Dial("tcp", addr); err == nil { // it may be closed already
		if err := third.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := third.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want the third connection to be closed", err)
		}
		_ = third.Close()
	}
	close(release)
	for _, conn := range []net.Conn{first, second} {
		if got := answered(t, conn); got != 200 {
			t.Errorf("got %d, want those that were there to be served still", got)
		}
	}
	// They are idle now, and can be closed for others.
	await.NoError(t, "a fourth connection is served", func() error {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			return err
		}
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil {
			_ = r.Body.Close()
		}
		return err
	})
	if got := s.Conns().Counts(); got.Refused < 1 || got.Reclaimed < 1 {
		t.Errorf("got %+v, want one refused and one reclaimed", got)
	}
}

func TestStalledRequestIsAborted(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	_, addr, _ := start(t, service.HTTPConfig{
		Handler: handler, HeaderTimeout: 50 * time.Millisecond, ReadTimeout: 100 * time.Millisecond, IdleTimeout: 50 * time.Millisecond,
	})
	for _, half := range []string{
		"", "GET / HT", "GET / HTTP/1.1\r\nHost: x\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf",
	} {
		conn := dial(t, addr)
		if _, err := io.WriteString(conn, half); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("after %q: got %v, want the connection to be closed", half, err)
		}
	}
}

func TestTooLongHeaderIsRefused(t *testing.T) {
	_, addr, _ := start(t, service.HTTPConfig{Handler: http.HandlerFunc(ok), MaxHeader: 1 << 10})
	conn := dial(t, addr)
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 16<<10)+"\r\n\r\n") // it may be cut off
	if got := answered(t, conn); got != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %d, want 431", got)
	}
}

func TestShutdownLetsCallsFinishAndServeReturnNil(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s, addr, done := start(t, service.HTTPConfig{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		w.WriteHeader(http.StatusTeapot)
	})})
	conn := dial(t, addr)
	ask(t, conn)
	<-entered
	shut := make(chan error, 1)
	go func() { shut <- s.Shutdown(context.Background()) }()
	if err := <-done; err != nil {
		t.Errorf("Serve: got %v, want nil", err)
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		_ = c.Close()
		t.Error("somebody is accepted after Shutdown")
	}
	close(leave)
	if got := answered(t, conn); got != http.StatusTeapot {
		t.Errorf("got %d, want the answer", got)
	}
	if err := <-shut; err != nil {
		t.Errorf("Shutdown: got %v, want nil", err)
	}
}

func TestShutdownAbortsSlowRequests(t *testing.T) {
	entered := make(chan struct{})
	s, addr, _ := start(t, service.HTTPConfig{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	})})
	conn := dial(t, addr)
	ask(t, conn)
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that the time was over", err)
	}
	if b, err := io.ReadAll(conn); len(b) > 0 {
		t.Errorf("got %q, %v, want no answer", b, err)
	}
}

func TestHTTP2WithPriorKnowledge(t *testing.T) {
	_, addr, _ := start(t, service.HTTPConfig{Handler: http.HandlerFunc(ok)})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: protocols}
	defer tr.CloseIdleConnections()
	r, err := (&http.Client{Transport: tr, Timeout: patience}).Get("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.ProtoMajor != 2 || r.StatusCode != 200 {
		t.Errorf("got %s %d, want HTTP/2.0 200", r.Proto, r.StatusCode)
	}
}

func TestBadSettingsAreRefused(t *testing.T) {
	h := http.HandlerFunc(ok)
	for want, c := range map[string]service.HTTPConfig{
		"no Handler":            {},
		"MaxConns -1: want":     {Handler: h, MaxConns: -1},
		"MaxHeader 10: want":    {Handler: h, MaxHeader: 10},
		"ReadTimeout -1s: want": {Handler: h, ReadTimeout: -time.Second},
	} {
		if _, err := service.NewHTTP(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// WithHold extends the time of a response, but not the time to send a body.
func TestResponseMayWaitOnceTheRequestIsRead(t *testing.T) {
	t.Parallel()
	handler := service.WithHold(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		select {
		case <-r.Context().Done():
		case <-time.After(1500 * time.Millisecond):
			w.WriteHeader(http.StatusTeapot)
		}
	}), time.Minute)
	_, addr, _ := start(t, service.HTTPConfig{
		Handler: handler, HeaderTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
	})
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
	} {
		conn := dial(t, addr)
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		if got := answered(t, conn); got != http.StatusTeapot {
			t.Errorf("%q: got %d, want what was held", request, got)
		}
	}
	conn := dial(t, addr)
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(conn); strings.Contains(string(b), "418") || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("half a body: got %q, %v, want the connection to be closed", b, err)
	}
}

// Idle connections stay open, and others are served.
func TestManyIdleConnectionsLeaveOthersAlone(t *testing.T) {
	const idle = 2000
	s, addr, _ := start(t, service.HTTPConfig{Handler: http.HandlerFunc(ok), HeaderTimeout: time.Hour, IdleTimeout: time.Hour})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range idle {
		conn := dial(t, addr)
		if i%2 == 0 { // half of them have made a request
			ask(t, conn)
			if got := answered(t, conn); got != 200 {
				t.Fatalf("got %d, want 200", got)
			}
		}
	}
	for deadline := time.Now().Add(patience); s.Conns().Open() < idle; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("got %d open connections, want %d", s.Conns().Open(), idle)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	// This process has both ends of each connection.
	if each := (int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse)) / idle; each > 64<<10 {
		t.Errorf("got %d bytes a connection, want at most 64 KiB", each)
	}
	conn := dial(t, addr)
	ask(t, conn)
	if got := answered(t, conn); got != 200 {
		t.Errorf("got %d beside them, want 200", got)
	}
}
