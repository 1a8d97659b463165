package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
)

// A connection that has changed its protocol is written to as well, and holds its place until it is closed.
func TestConnectionsThatAreUpgradedHoldTheirPlace(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"); err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(conn, both) // until the client has gone
	}))
	defer server.Close()
	base := &http.Transport{}
	transport := newTransport(t, Options{Base: base, Limiter: newMemory(t), Limit: headgate.InFlight(1), MaxWait: -1})
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()
	upgrade := func() (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "echo")
		return client.Do(r)
	}
	for range 2 {
		response, err := upgrade()
		if err != nil {
			t.Fatal(err)
		}
		both, ok := response.Body.(io.ReadWriteCloser)
		if !ok {
			t.Fatalf("got a body of %T, want one that can be written to", response.Body)
		}
		if _, err := io.WriteString(both, "hello"); err != nil {
			t.Fatal(err)
		}
		said := make([]byte, 5)
		if _, err := io.ReadFull(both, said); err != nil || string(said) != "hello" {
			t.Errorf("got %q, %v; want it back", said, err)
		}
		if _, err := get(t, transport, server.URL); !errors.Is(err, ErrLimited) {
			t.Errorf("beside it: got %v, want ErrLimited", err)
		}
		if err := both.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A pool counts how often it was told to close what is idle.
type pool struct {
	far
	closed int
}

func (p *pool) CloseIdleConnections() { p.closed++ }

func TestIdleConnectionsOfTheBaseCanBeClosed(t *testing.T) {
	base := &pool{}
	(&http.Client{Transport: newTransport(t, Options{Base: base})}).CloseIdleConnections()
	if base.closed != 1 {
		t.Errorf("the base was told %d times, want once", base.closed)
	}
	(&http.Client{Transport: newTransport(t, Options{Base: far(nil)})}).CloseIdleConnections() // has none
}

// A hasty limiter denies and says to come back at once.
type hasty struct {
	headgate.Limiter
	asked int
}

func (h *hasty) Take(context.Context, headgate.Check) (headgate.Decision, error) {
	h.asked++
	return headgate.Decision{Limit: 1}, nil
}

func TestALimiterThatSaysAtOnceIsNotAskedWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := &hasty{}
		transport := newTransport(t, Options{Limiter: limiter, Limit: headgate.PerSecond(1), MaxWait: time.Second})
		if _, err := get(t, transport, "http://a/"); !errors.Is(err, ErrLimited) {
			t.Errorf("got %v, want ErrLimited once it has waited for a second", err)
		}
		if limiter.asked > 1001 {
			t.Errorf("it was asked %d times in a second, want at most once a millisecond", limiter.asked)
		}
	})
}
