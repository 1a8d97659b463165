package topology

import (
	"context"
	"errors"
	"math"
	"net"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

const (
	// firstConnectDelay is the delay after the first failed attempt to connect. It doubles with each attempt, up to
	// maxConnectDelay.
	firstConnectDelay, maxConnectDelay = 10 * time.Millisecond, 500 * time.Millisecond
	// permanentDelay is the delay after an error that does not go away by itself.
	permanentDelay = 5 * time.Second
	// maxDrain is the longest time for which the connector waits until calls have noticed that their connection is lost.
	maxDrain = 100 * time.Millisecond
	// hangChecks is the number of times that the connector checks a silent server within its hang timeout.
	hangChecks = 8
)

var errDemoted = errors.New("the server has become a replica")

// A connector is the state of the goroutine that keeps a server connected.
type connector struct {
	reported    bool          // the log says that the server is unreachable
	silentSince time.Time     // since when calls are active and no data has arrived, or zero
	wake        chan struct{} // asks the goroutine to check the connection
	stop        context.CancelFunc
	done        chan struct{} // closed when the goroutine has ended
}

func newConnector() connector {
	return connector{wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// requestPing makes the connector check the connection with a ping.
func (c *connector) requestPing() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// dropConnection closes the connection. Its calls fail with the reason. The connector then connects again.
func (s *Server) dropConnection(reason error) {
	if conn := s.link.current(); conn != nil {
		conn.closeReason.CompareAndSwap(nil, &reason)
		_ = conn.Close()
	}
}

// reconnectDemoted connects again to a server that was a primary and is now a replica, because its host name may now
// resolve to another server. It does so at most once per pingInterval.
func (s *Server) reconnectDemoted() {
	if s.options.clock.Since(s.link.dialedAt()) >= pingInterval {
		s.dropConnection(errDemoted)
	}
}

// keepConnected keeps the server connected until ctx ends.
func (s *Server) keepConnected(ctx context.Context) {
	defer close(s.connector.done)
	delay := firstConnectDelay
	for {
		err := s.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := time.Duration(math.MaxInt64)
		if err == nil {
			delay = firstConnectDelay
		} else {
			s.connectFailed(err)
			wait = s.options.jitter(delay)
			delay = min(2*delay, maxConnectDelay)
			if IsPermanent(err) {
				delay = permanentDelay
			}
		}
		if !s.awaitCheck(ctx, wait) {
			return
		}
	}
}

// awaitCheck waits until the connection must be checked, because maxWait has passed, requestPing was called, or the
// server has been silent for half of its hang timeout. It returns false when ctx ends.
func (s *Server) awaitCheck(ctx context.Context, maxWait time.Duration) bool {
	clk := s.options.clock
	timeout := clk.NewTimer(maxWait)
	defer timeout.Stop()
	tick := clk.NewTimer(s.options.hangTimeout / hangChecks)
	defer tick.Stop()
	silentSince := &s.connector.silentSince
	*silentSince = time.Time{}
	for reads := s.replies.reads.Load(); ; {
		select {
		case <-ctx.Done():
			return false
		case <-timeout.C():
			return true
		case <-s.connector.wake:
			return true
		case <-tick.C():
			tick.Reset(s.options.hangTimeout / hangChecks)
		}
		switch latest := s.replies.reads.Load(); {
		case latest != reads || s.calls.active.Load() == 0:
			reads, *silentSince = latest, time.Time{}
		case silentSince.IsZero():
			*silentSince = clk.Now()
		case s.Connected() && clk.Since(*silentSince) >= s.options.hangTimeout/2:
			return true
		}
	}
}

// connect pings the server, on the current connection or a new one. If the server responds, connect marks it as
// connected, so that calls can enter.
func (s *Server) connect(ctx context.Context) error {
	conn := s.link.current()
	timeout := s.options.hangTimeout
	switch {
	case conn == nil:
		s.drain(ctx)
		timeout = s.options.dialer.timeout
	case !s.connector.silentSince.IsZero():
		timeout = max(timeout/hangChecks, timeout-s.options.clock.Since(s.connector.silentSince))
	}
	attempt := new(dialAttempt)
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, dialAttemptKey{}, attempt), timeout)
	defer cancel()
	err := s.ping(ctx)
	if err != nil && conn == nil && !attempt.dialed {
		// The library had not noticed yet that the last connection was lost.
		err = s.ping(ctx)
	}
	if err != nil {
		if attempt.err != nil { // the cause; err may only be a timeout
			err = attempt.err
		}
		s.dropConnection(err)
		return s.explainConnect(err)
	}
	s.calls.release(s.calls.abandoned.Swap(0)) // replies arrive in order, so these calls ended before the ping
	if s.Connected() {
		return nil
	}
	s.setStatus(&status{connected: true})
	if s.link.current() == nil { // the new connection is already lost
		s.markLost(s.status.Load(), net.ErrClosed)
	}
	if s.connector.reported {
		s.connector.reported = false
		s.options.log.Info("redis server reachable again", "server", s.addr)
	}
	return nil
}

func (s *Server) ping(ctx context.Context) error {
	return s.client.Do(ctx, s.client.B().Ping().Build()).NonRedisError()
}

func (s *Server) explainConnect(err error) error {
	err = explainDial(err, s.addr, s.options.dialer.tls != nil)
	var e *ServerError
	if s.sentinel && errors.As(err, &e) && e.Fix == fixPassword {
		e.Fix = fixSentinelPassword
	}
	return err
}

// drain waits until active calls have noticed that the connection is lost.
func (s *Server) drain(ctx context.Context) {
	began := s.options.clock.Now()
	for s.calls.active.Load() > s.calls.abandoned.Load() && s.options.clock.Since(began) < maxDrain {
		if clock.Sleep(ctx, s.options.clock, time.Millisecond) != nil {
			break
		}
	}
	// Abandoned calls get no replies from a lost connection. No caller waits for their room: waiting ended with the
	// status.
	s.calls.active.Add(-s.calls.abandoned.Swap(0))
}

// connectFailed records why an attempt to connect failed. It logs each reason once.
func (s *Server) connectFailed(err error) {
	old := s.status.Load()
	if old.connected {
		return // the connection is being closed, which changes the status; see serverConn.Close
	}
	if !s.connector.reported || !sameProblem(old.err, err) {
		s.connector.reported = true
		s.options.log.Warn("redis server unreachable", "server", s.addr, "err", err)
	}
	next := &status{err: err, since: old.since, failures: old.failures + 1, changed: make(chan struct{})}
	if s.status.CompareAndSwap(old, next) {
		close(old.changed)
	}
}
