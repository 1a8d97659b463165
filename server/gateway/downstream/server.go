package downstream

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/gateway/downstream/h2"
	"github.com/headgate/headgate/server/gateway/internal/turns"
)

// A Server serves HTTP/1.1 and HTTP/2, and passes connections that it does not serve itself to net/http. Serve can be
// called once, and fields must not change after that.
type Server struct {
	// Handler serves requests. It must not keep a request after it has returned.
	Handler http.Handler
	// NetHTTP serves the requests that this package does not serve. It should have the same Handler. If its TLSConfig is
	// set, all clients must use TLS.
	NetHTTP *http.Server
	// OnlyNetHTTP makes NetHTTP serve all requests, for comparison.
	OnlyNetHTTP bool
	// HeaderTimeout is the maximum time to receive the header of a request, and the TLS handshake. 0: no maximum.
	HeaderTimeout time.Duration
	// IdleTimeout is the maximum time for which a connection may wait for its next request. 0: no maximum.
	IdleTimeout time.Duration
	// WriteTimeout is the maximum time for which a client may accept no bytes of a response, unless the handler sets a
	// deadline. 0: no maximum.
	WriteTimeout time.Duration
	// Turns limits how many connections are served at the same time. Default: a queue without a limit.
	Turns *turns.Queue
	// ErrorLog logs panics of handlers and errors of Accept. Default the standard logger.
	ErrorLog *log.Logger

	// handOverAfter is the time for which a connection waits for its next request before a new goroutine waits instead.
	// Default defaultHandOverAfter; other values are for tests.
	handOverAfter time.Duration
	epoch         time.Time // the time 0 of now
	tls           *tls.Config
	handover      *handover
	http2         *h2.Server
	ending        atomic.Bool
	waited        atomic.Int64 // the last time, by now, when a connection got bytes after it had waited
	lastDate      atomic.Pointer[dateText]
	buffers       sync.Pool // of *[maxHead]byte
	exchanges     sync.Pool // of *exchange
	onEnd         func()    // for tests: called for each connection that has ended or was hijacked; may be nil

	mu          sync.Mutex
	begun       bool
	listener    net.Listener
	conns       map[*conn]struct{}
	netHTTPRuns sync.WaitGroup // waits for NetHTTP.Serve
}

var errUsed = errors.New("downstream: Serve is running already")

// begin prepares the server.
func (s *Server) begin(l net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ending.Load():
		return http.ErrServerClosed
	case s.begun:
		return errUsed
	}
	s.begun = true
	s.epoch = time.Now()
	if s.handOverAfter == 0 {
		s.handOverAfter = defaultHandOverAfter
	}
	if s.Turns == nil {
		s.Turns = new(turns.Queue)
	}
	s.conns = make(map[*conn]struct{})
	s.listener = l
	s.handover = newHandover(l.Addr())
	if config := s.NetHTTP.TLSConfig; config != nil {
		s.tls = config.Clone()
		protocols := s.NetHTTP.Protocols
		if len(s.tls.NextProtos) == 0 {
			if protocols == nil || protocols.HTTP2() {
				s.tls.NextProtos = append(s.tls.NextProtos, "h2")
			}
			s.tls.NextProtos = append(s.tls.NextProtos, "http/1.1")
		}
		// NetHTTP then accepts connections whose TLS has negotiated HTTP/2.
		s.NetHTTP.TLSConfig = s.tls.Clone()
	}
	closeAmbiguous(s.NetHTTP)
	s.http2 = s.newHTTP2()
	s.netHTTPRuns.Add(1) // while mu is held, so that it precedes Wait in Shutdown
	return nil
}

// Serve serves connections until the listener fails or the server is shut down; then the error is http.ErrServerClosed.
// It is never nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.begin(l); err != nil {
		_ = l.Close()
		return err
	}
	netHTTP := make(chan error, 1)
	go func() {
		defer s.netHTTPRuns.Done()
		netHTTP <- s.NetHTTP.Serve(s.handover)
	}()
	err := s.accept(l)
	_ = l.Close()
	// Connections, including those of NetHTTP, are served until Shutdown.
	select {
	case failed := <-netHTTP:
		err = errors.Join(err, failed) // before Shutdown, NetHTTP.Serve returns only if it could not start
	default:
	}
	if s.ending.Load() {
		return http.ErrServerClosed
	}
	return err
}

// A temporaryError is an error of Accept after which another call may succeed, such as too many open files.
type temporaryError interface{ Temporary() bool }

func (s *Server) accept(l net.Listener) error {
	var wait time.Duration
	for {
		nc, err := l.Accept()
		if err == nil {
			wait = 0
			s.open(nc)
			continue
		}
		if temporary, ok := err.(temporaryError); !ok || !temporary.Temporary() || s.ending.Load() {
			return err
		}
		wait = min(max(2*wait, 5*time.Millisecond), time.Second)
		s.logf("downstream: accept: %v; trying again in %v", err, wait)
		time.Sleep(wait)
	}
}

func (s *Server) open(nc net.Conn) {
	c := newConn(s, nc)
	if c.link.counted != nil {
		c.link.counted.SetHolder(c)
	}
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	go c.serve()
}

// forget removes a connection that has ended or has another owner.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

func (s *Server) now() time.Duration { return time.Since(s.epoch) + 1 }

// freshTime is the time for which Shutdown waits for the first request of a new connection, because the client may have
// already sent it. net/http waits for the same time.
const freshTime = 5 * time.Second

// Shutdown closes the listener and idle connections, and waits until all other connections have become idle and are
// closed. If the context ends first, it returns the error of the context.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	wait := time.Millisecond
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for !s.closeIdle() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			wait = min(2*wait, 100*time.Millisecond)
			timer.Reset(wait)
		}
	}
	// This must be last, because closeIdle waits for connections that may be passed to NetHTTP.
	err := s.NetHTTP.Shutdown(ctx)
	if err == nil {
		s.netHTTPRuns.Wait()
		s.closeHTTP2()
	}
	return err
}

// stop ends Accept. From then on, connections are closed after their current request.
func (s *Server) stop() {
	s.ending.Store(true)
	s.NetHTTP.SetKeepAlivesEnabled(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		_ = s.listener.Close() // it may be closed already
	}
}

// closeIdle closes idle connections, and reports whether no connection is left.
func (s *Server) closeIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for c := range s.conns {
		if http2 := c.http2.Load(); http2 != nil {
			http2.Drain()
			continue
		}
		if c.state.Load() == stateFresh && now-c.openedAt < freshTime {
			continue
		}
		state := c.state.Load()
		if state != stateActive && state != stateClosed && c.state.CompareAndSwap(state, stateClosed) {
			_ = c.link.raw.Close()
		}
	}
	return len(s.conns) == 0
}

// Close closes all connections immediately.
func (s *Server) Close() error {
	s.stop()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.link.raw.Close()
	}
	s.mu.Unlock()
	err := s.NetHTTP.Close()
	s.netHTTPRuns.Wait()
	s.closeHTTP2()
	return err
}

func (s *Server) logf(format string, args ...any) {
	if s.ErrorLog != nil {
		s.ErrorLog.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}
