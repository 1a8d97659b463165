//go:build unix

package downstream

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

func TestIdleConnectionServesItsNextRequest(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.URL.Path+string(body))
	}, func(s *Server) { s.handOverAfter = time.Millisecond })
	c, r := dial(t, s.addr)
	for _, path := range []string{"/first", "/second", "/third"} {
		send(t, c, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
		if a := receive(t, r, "POST"); a.body != path+"abc" {
			t.Fatalf("got %q, want %q", a.body, path+"abc")
		}
		awaitIdle(t)
	}
	// Half a request ends the wait, but its second half may take as long as any.
	send(t, c, "GET /in-parts HTTP/1.1\r\n")
	await.True(t, "the connection is active", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			return c.state.Load() == stateActive
		}
		return false
	})
	send(t, c, "Host: x\r\n\r\n")
	if a := receive(t, r, "GET"); a.body != "/in-parts" {
		t.Errorf("got %q, want /in-parts", a.body)
	}
}

func TestIdleConnectionEndsWithItsIdleTimeout(t *testing.T) {
	s := start(t, func(http.ResponseWriter, *http.Request) {}, func(s *Server) {
		s.handOverAfter, s.IdleTimeout = time.Millisecond, 50*time.Millisecond
	})
	c, r := dial(t, s.addr)
	send(t, c, get("/"))
	receive(t, r, "GET")
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("got %d bytes and %v, want the end of the connection", n, err)
	}
	await.True(t, "the server forgets the connection", func() bool { return s.ended.get() == 1 })
}

func TestShutdownClosesIdleConnections(t *testing.T) {
	s := start(t, func(http.ResponseWriter, *http.Request) {}, func(s *Server) { s.handOverAfter = time.Millisecond })
	c, r := dial(t, s.addr)
	send(t, c, get("/"))
	receive(t, r, "GET")
	awaitIdle(t)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("got %d bytes and %v, want an error", n, err)
	}
}

// awaitIdle waits until a goroutine waits in serveIdle, and the connection has no other.
func awaitIdle(t *testing.T) {
	t.Helper()
	await.True(t, "the connection is idle", func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return strings.Contains(string(stacks), "serveIdle(") && !strings.Contains(string(stacks), "(*conn).serve(")
	})
}
