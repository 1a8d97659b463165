package httplimit_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
)

// A memNet is a network in memory, for tests in which time is virtual.
type memNet struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// serveInMemory serves a handler and returns a client of it. The host does not matter.
func serveInMemory(t *testing.T, h http.Handler) *http.Client {
	t.Helper()
	n := &memNet{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: h}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(n) })
	transport := &http.Transport{DialContext: n.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		shut(server)
		serving.Wait()
	})
	return &http.Client{Transport: transport}
}

func (n *memNet) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case n.conns <- theirs:
		return ours, nil
	case <-n.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *memNet) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.done:
		return nil, net.ErrClosed
	}
}

func (n *memNet) Close() error {
	n.once.Do(func() { close(n.done) })
	return nil
}

func (n *memNet) Addr() net.Addr { return &net.TCPAddr{} }
