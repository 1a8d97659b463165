package topology

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
)

const (
	// maxCalls is the maximum number of active calls. It leaves room in the library's queue for the library's own
	// commands.
	maxCalls = 1<<queueScale - 32
	// A server counts as hung after hangCalls abandoned calls in a row, if it has sent nothing since the first of them and
	// for at least minHangSilence. Without this minimum, a server would count as hung if deadlines are shorter than the
	// round trip.
	hangCalls      = 64
	minHangSilence = 15 * time.Millisecond
	// reconnectWait is how long callers wait for a new connection when the old one was just lost.
	reconnectWait = 50 * time.Millisecond
	// batchCalls is the number of concurrent calls at which batching starts.
	batchCalls = 16
)

var (
	errNotConnected = errors.New("not connected yet")
	errHangs        = errors.New("several calls in a row got no response in time")
)

// A status is the state of a server's connection. It is immutable.
type status struct {
	connected bool
	err       error         // why the server is not connected
	since     time.Time     // when the connection was made or lost
	failures  int           // failed attempts to connect since then
	changed   chan struct{} // closed when another status replaces this one
}

// calls counts the calls on a connection, and limits them to the room in the library's queue.
type calls struct {
	active    atomic.Int64  // calls that have entered; abandoned calls count until their replies arrive
	abandoned atomic.Int64  // active calls whose caller has returned without a reply
	busySince atomic.Int64  // when active became 1, in ns since Server.created
	waiting   atomic.Int64  // callers that wait for room
	room      chan struct{} // receives a value when a call ends and callers wait
}

func newCalls() calls { return calls{room: make(chan struct{}, 1)} }

// replies records when data last arrived from a server.
type replies struct {
	reads  atomic.Int64 // reads that returned data
	lastAt atomic.Int64 // when the last of these reads returned, in ns since Server.created
	// readsAtCheck is the value of reads when the first call was abandoned or when checkHang last ran, whichever is later.
	readsAtCheck atomic.Int64
}

// enter counts a call as active, or returns an error that says why the call must not be sent. Each entered call must
// end with leave or leaveFailed.
func (s *Server) enter(ctx context.Context) (*status, error) {
	if err := ctx.Err(); err != nil {
		return nil, s.refuse(err)
	}
	for {
		st := s.status.Load()
		if !st.connected {
			if err := s.awaitReconnect(ctx, st); err != nil {
				return nil, s.refuse(err)
			}
			continue
		}
		switch active := s.calls.active.Add(1); {
		case active == 1:
			s.calls.busySince.Store(s.age())
		case active > maxCalls:
			s.calls.active.Add(-1)
			if err := s.calls.awaitRoom(ctx, st); err != nil {
				return nil, s.refuse(err)
			}
			continue
		}
		// The connector connects only while no call is active. Otherwise a call could block inside the library while the
		// connector dials.
		if s.status.Load() == st {
			return st, nil
		}
		s.calls.release(1)
	}
}

// Connected reports whether the connection works.
func (s *Server) Connected() bool { return s.status.Load().connected }

// busy reports whether commands should be sent in batches.
func (s *Server) busy() bool { return s.calls.active.Load() >= batchCalls }

// refuse counts a call that is not sent, and returns its error.
func (s *Server) refuse(err error) error {
	s.counts.refused.Add(1)
	if errors.Is(err, headgate.ErrClosed) {
		return err
	}
	if st := s.status.Load(); !st.connected && errors.Is(err, context.DeadlineExceeded) {
		err = st.err
	}
	return unreachableError(s.addr, err)
}

// awaitReconnect waits up to reconnectWait after the connection was lost until another status replaces st.
func (s *Server) awaitReconnect(ctx context.Context, st *status) error {
	wait := reconnectWait - s.options.clock.Since(st.since)
	if wait <= 0 || errors.Is(st.err, headgate.ErrClosed) || IsPermanent(st.err) {
		return st.err
	}
	timer := s.options.clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-st.changed:
		return nil
	case <-timer.C():
		return st.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitRoom waits until a call has ended.
func (c *calls) awaitRoom(ctx context.Context, st *status) error {
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	if c.active.Load() < maxCalls {
		return nil
	}
	select {
	case <-c.room:
		if c.active.Load() < maxCalls-1 { // there is room for another caller too
			c.offerRoom()
		}
		return nil
	case <-st.changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release ends n calls, and makes room for a waiting caller.
func (c *calls) release(n int64) {
	c.active.Add(-n)
	if c.waiting.Load() > 0 {
		c.offerRoom()
	}
}

func (c *calls) offerRoom() {
	select {
	case c.room <- struct{}{}:
	default:
	}
}

// leave ends a call that got a reply or lost its connection. Replies arrive in order, so the calls that were abandoned
// before have ended too.
func (s *Server) leave() {
	n := int64(1)
	if s.calls.abandoned.Load() != 0 {
		n += s.calls.abandoned.Swap(0)
	}
	s.calls.release(n)
}

// leaveFailed ends a call that got no reply, and returns its error.
func (s *Server) leaveFailed(ctx context.Context, st *status, err error) error {
	s.counts.unanswered.Add(1)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		// The caller gives up, but the call stays in the library's queue until its reply arrives.
		switch abandoned := s.calls.abandoned.Add(1); {
		case abandoned == 1:
			s.replies.readsAtCheck.Store(s.replies.reads.Load())
		case abandoned%hangCalls == 0:
			s.checkHang(st)
		}
		return noResponseError(err, s.addr)
	}
	s.leave()
	s.markLost(st, err)
	if errors.Is(err, errNotConnected) || errors.Is(err, rueidis.ErrClosing) {
		// The connection was lost between enter and sending, so the call was not sent.
		return s.refuse(s.status.Load().err)
	}
	return Explain(err, s.addr)
}

// checkHang decides after many abandoned calls whether the server hangs. The server does not hang if it has sent
// something since the last check, or if minHangSilence has not passed. In this case the connector pings the server.
// Replies arrive in order, so after the reply to the ping all abandoned calls have ended.
func (s *Server) checkHang(st *status) {
	reads := s.replies.reads.Load()
	silence := s.age() - max(s.replies.lastAt.Load(), s.calls.busySince.Load())
	if s.replies.readsAtCheck.Swap(reads) != reads || silence < int64(minHangSilence) {
		s.connector.requestPing()
		return
	}
	s.counts.hangs.Add(1)
	s.markLost(st, &ServerError{
		Server: s.addr, Problem: "hangs", Err: errHangs, Fix: "check its SLOWLOG, and the load of its host",
	})
}

// markLost records that the connection is lost, so that no more calls enter. It does nothing if another status has
// replaced st.
func (s *Server) markLost(st *status, err error) {
	down := &status{err: Explain(err, s.addr), since: s.options.clock.Now(), changed: make(chan struct{})}
	if !st.connected || !s.status.CompareAndSwap(st, down) {
		return
	}
	close(st.changed)
	s.connector.requestPing()
}

// setStatus replaces the status, whatever it is now.
func (s *Server) setStatus(st *status) {
	st.since, st.changed = s.options.clock.Now(), make(chan struct{})
	if old := s.status.Swap(st); old.changed != nil {
		close(old.changed)
	}
}

// Await waits until the server is connected or an attempt to connect has failed, and returns the error of that attempt.
func (s *Server) Await(ctx context.Context) error {
	for {
		st := s.status.Load()
		switch {
		case st.connected:
			return nil
		case st.failures > 0 || !errors.Is(st.err, errNotConnected):
			return st.err
		}
		select {
		case <-st.changed:
		case <-ctx.Done():
			return unreachableError(s.addr, ctx.Err())
		}
	}
}

// Outage returns when the server became unreachable, and why. The error is nil if the server is connected, or if the
// first attempt to connect has not ended yet.
func (s *Server) Outage() (since time.Time, err error) {
	st := s.status.Load()
	if st.connected || st.failures == 0 && errors.Is(st.err, errNotConnected) {
		return time.Time{}, nil
	}
	return st.since, unreachableError(s.addr, st.err)
}
