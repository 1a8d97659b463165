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
	// maxCalls leaves room in the library's queue for its own commands.
	maxCalls = 1<<queueScale - 32
	// A server hangs if this many calls in a row were abandoned without any reply from it, for at least minHangSilence:
	// deadlines may be shorter than the round trip.
	hangCalls      = 64
	minHangSilence = 15 * time.Millisecond
	// reconnectWait is how long callers wait for a connection that was just lost.
	reconnectWait = 50 * time.Millisecond
	// batchCalls is the number of concurrent calls from which commands are sent in batches.
	batchCalls = 16
)

var (
	errNotConnected = errors.New("not connected yet")
	errHangs        = errors.New("several calls in a row got no response in time")
)

// A status is the state of a server's connection. It is immutable.
type status struct {
	connected bool
	err       error // why it is not connected
	since     time.Time
	failures  int           // failed attempts to connect since then
	changed   chan struct{} // closed when another status replaces this one
}

// calls counts the calls of a connection, and bounds them by the room in the library's queue.
type calls struct {
	active    atomic.Int64  // calls let in, including abandoned ones until their replies have arrived
	abandoned atomic.Int64  // active calls whose caller has returned without a reply
	busySince atomic.Int64  // when active became 1, as Server.age
	waiting   atomic.Int64  // callers that wait for room
	room      chan struct{} // receives a value when a call ends and callers wait
}

func newCalls() calls { return calls{room: make(chan struct{}, 1)} }

// replies records when data last arrived from a server.
type replies struct {
	reads  atomic.Int64 // reads that returned data
	lastAt atomic.Int64 // when the last of them returned, as Server.age
	// readsAtCheck is the value of reads when the oldest abandoned call was abandoned, or when checkHang last ran.
	readsAtCheck atomic.Int64
}

// enter lets a call in, or returns why it must not be sent.
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
		// The connector connects only while no call is active. So no call meets it in the library and waits for it there.
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
	return unreachable(s.addr, err)
}

// awaitReconnect waits until another status replaces st, if the connection was lost just now.
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
		if c.active.Load() < maxCalls-1 { // room for another one
			c.offerRoom()
		}
		return nil
	case <-st.changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release ends n calls.
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

// leave ends a call that got a reply. Replies arrive in order, so the abandoned calls have ended too.
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
		// The call stays in the queue until its reply arrives.
		switch abandoned := s.calls.abandoned.Add(1); {
		case abandoned == 1:
			s.replies.readsAtCheck.Store(s.replies.reads.Load())
		case abandoned%hangCalls == 0:
			s.checkHang(st)
		}
		return explainNetwork(err, s.addr)
	}
	s.leave()
	s.lost(st, err)
	if errors.Is(err, errNotConnected) || errors.Is(err, rueidis.ErrClosing) { // lost between enter and sending
		return s.refuse(s.status.Load().err)
	}
	return Explain(err, s.addr)
}

// checkHang decides after many abandoned calls whether the server hangs. It does not if it has sent anything meanwhile
// or has hardly had the time to. Then the connector's next ping tells when all abandoned calls have their replies.
func (s *Server) checkHang(st *status) {
	reads := s.replies.reads.Load()
	silence := s.age() - max(s.replies.lastAt.Load(), s.calls.busySince.Load())
	if s.replies.readsAtCheck.Swap(reads) != reads || silence < int64(minHangSilence) {
		s.connector.requestCheck()
		return
	}
	s.counts.hangs.Add(1)
	s.lost(st, &ServerError{Server: s.addr, Problem: "hangs", Err: errHangs, Fix: "see its SLOWLOG and its host"})
}

// lost closes the gate if st is still the status.
func (s *Server) lost(st *status, err error) {
	down := &status{err: Explain(err, s.addr), since: s.options.clock.Now(), changed: make(chan struct{})}
	if !st.connected || !s.status.CompareAndSwap(st, down) {
		return
	}
	close(st.changed)
	s.connector.requestCheck()
}

// setStatus replaces the status.
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
			return unreachable(s.addr, ctx.Err())
		}
	}
}

// Outage returns since when the server is unreachable, and why. The error is nil if the server is connected, or is
// being connected to for the first time.
func (s *Server) Outage() (since time.Time, err error) {
	st := s.status.Load()
	if st.connected || st.failures == 0 && errors.Is(st.err, errNotConnected) {
		return time.Time{}, nil
	}
	return st.since, unreachable(s.addr, st.err)
}
