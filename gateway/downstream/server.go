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
)

// A Server serves HTTP/1.1, and leaves to net/http what it does not serve itself. It is used once. Its fields must not change
// when Serve has been called.
type Server struct {
	// Handler answers requests. It must not keep them.
	Handler http.Handler
	// Rest is who serves what is not served here. Its Handler should be the same. Its TLSConfig is used here too: if it is
	// set, clients speak TLS.
	Rest *http.Server
	// OnlyRest has Rest serve everything, for who wants to compare.
	OnlyRest bool
	// HeaderTimeout is how long the header of a request may take, and the handshake of TLS. 0: no bound.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a connection may wait for its next request. 0: no bound.
	IdleTimeout time.Duration
	// WriteTimeout is how long a client may take nothing of what is sent to him, unless the handler sets a deadline. 0: no
	// bound.
	WriteTimeout time.Duration
	// ErrorLog hears of handlers that panic. Default log's.
	ErrorLog *log.Logger
	// ConnEnded is told of each connection that is over, or has been taken over by a handler, and was not handed over to Rest.
	// Default nobody.
	ConnEnded func(net.Conn)

	epoch    time.Time     // when the clock began
	keepFor  time.Duration // how long an idle connection keeps what a handler has kept for it
	tls      *tls.Config
	handover *handover
	ending   atomic.Bool
	dates    dates

	mu        sync.Mutex
	begun     bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	resting   sync.WaitGroup // Rest, while it serves
}

// keepFor is how long a client may wait with the next request that is to be decided as the one before.
const keepFor = 5 * time.Second

var errUsed = errors.New("downstream: Serve is running already")

// begin makes the server ready.
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
	if s.keepFor == 0 {
		s.keepFor = keepFor
	}
	s.conns = make(map[*conn]struct{})
	s.listeners = map[net.Listener]struct{}{l: {}}
	s.handover = newHandover(l.Addr())
	if config := s.Rest.TLSConfig; config != nil {
		s.tls = config.Clone()
		protocols := s.Rest.Protocols
		if len(s.tls.NextProtos) == 0 {
			if protocols == nil || protocols.HTTP2() {
				s.tls.NextProtos = append(s.tls.NextProtos, "h2")
			}
			s.tls.NextProtos = append(s.tls.NextProtos, "http/1.1")
		}
		// By this Rest knows that connections may come whose TLS has chosen HTTP/2.
		s.Rest.TLSConfig = s.tls.Clone()
	}
	closeAmbiguous(s.Rest)
	s.resting.Add(1) // here, so that Shutdown either waits for it or comes before it
	return nil
}

// Serve serves connections until the listener fails or the server is shut down. The error is never nil, and
// http.ErrServerClosed in the latter case.
func (s *Server) Serve(l net.Listener) error {
	if err := s.begin(l); err != nil {
		_ = l.Close()
		return err
	}
	rest := make(chan error, 1)
	go func() {
		defer s.resting.Done()
		rest <- s.Rest.Serve(s.handover)
	}()
	err := s.accept(l)
	_ = l.Close()
	// What has been handed over goes on until Shutdown, as that which has not does.
	select {
	case failed := <-rest:
		err = errors.Join(err, failed) // it ends only if it cannot even begin
	default:
	}
	if s.ending.Load() {
		return http.ErrServerClosed
	}
	return err
}

// A temporaryError is an error of Accept, such as that of too many open files, after which another call may succeed.
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
		// There are too many open files, most likely.
		wait = min(max(2*wait, 5*time.Millisecond), time.Second)
		s.logf("downstream: accept: %v; trying again in %v", err, wait)
		time.Sleep(wait)
	}
}

func (s *Server) open(nc net.Conn) {
	c := newConn(s, nc)
	if c.place != nil {
		c.place.SetHolder(c)
	}
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	go c.serve()
}

// forget removes a connection that is over or has another owner.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

func (s *Server) now() time.Duration { return time.Since(s.epoch) + 1 }

// freshTime is how long a connection is waited for on which nothing has come yet: its request may be on its way. It is as long
// as net/http has it.
const freshTime = 5 * time.Second

// Shutdown closes connections that are idle and those that become so, and waits until there are none. If the context ends
// before that, the error is the context's. The listener is closed at once.
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
	// Only now, since until then a connection may be handed over.
	err := s.Rest.Shutdown(ctx)
	if err == nil {
		s.resting.Wait()
	}
	return err
}

// stop has no more connections accepted, and none kept.
func (s *Server) stop() {
	s.ending.Store(true)
	s.Rest.SetKeepAlivesEnabled(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		_ = l.Close() // it may be closed already
	}
}

// closeIdle reports whether no connection is left.
func (s *Server) closeIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for c := range s.conns {
		if c.state.Load() == isFresh && now-c.opened < freshTime {
			continue
		}
		if state := c.state.Load(); state != isActive && state != isClosed && c.state.CompareAndSwap(state, isClosed) {
			_ = c.raw.Close()
		}
	}
	return len(s.conns) == 0
}

// Close closes everything at once.
func (s *Server) Close() error {
	s.stop()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.raw.Close()
	}
	s.mu.Unlock()
	err := s.Rest.Close()
	s.resting.Wait()
	return err
}

func (s *Server) logf(format string, args ...any) {
	if s.ErrorLog != nil {
		s.ErrorLog.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}
