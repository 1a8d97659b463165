package upstream

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// watchDelay is the minimum time that a round trip waits for the upstream before it watches the client's context. The
// maximum is twice as long. Most responses arrive sooner, so they save the cost of the watch.
const watchDelay = 20 * time.Millisecond

// setFirstDeadline sets the deadline for sending the request and for the response's head. If possible, it sets a
// provisional deadline, which ends after watchDelay to 2*watchDelay. When it ends, setFinalDeadline replaces it.
func (rt *roundTrip) setFirstDeadline() {
	now := rt.started
	rt.headDeadline = time.Time{}
	timeout := rt.pool.config.HeaderTimeout
	if timeout > 0 {
		rt.headDeadline = now.Add(timeout)
	}
	rt.provisional = !rt.c.secure && rt.body.mode != streamed && (timeout < 0 || timeout > 2*watchDelay)
	if !rt.provisional {
		// A TLS connection is unusable after a write has timed out, so the first deadline must be the final one.
		rt.watch()
		rt.setDeadline(rt.headDeadline)
		return
	}
	// Setting a deadline is expensive, so consecutive requests on a connection share a provisional deadline.
	if rt.c.provisionalUntil.Sub(now) < watchDelay {
		rt.setDeadline(now.Add(2 * watchDelay))
		rt.c.provisionalUntil = now.Add(2 * watchDelay)
	}
}

func (rt *roundTrip) setDeadline(t time.Time) {
	rt.c.provisionalUntil = time.Time{}
	_ = rt.c.SetDeadline(t)
}

// setFinalDeadline replaces the provisional deadline by the configured one, and watches the client's context from now
// on.
func (rt *roundTrip) setFinalDeadline() {
	rt.provisional = false
	rt.watch()
	deadline := rt.headDeadline
	if rt.inBody {
		deadline = deadlineAfter(rt.pool.config.StallTimeout)
	}
	rt.setDeadline(deadline)
}

// watch arranges that the connection is closed when the context ends.
func (rt *roundTrip) watch() {
	if rt.unwatchCtx == nil {
		rt.unwatchCtx = context.AfterFunc(rt.ctx, rt.c.closeNetConn)
	}
}

// unwatch ends the watch. It returns false if the context has ended, so that the connection is closed or will be.
func (rt *roundTrip) unwatch() bool {
	stop := rt.unwatchCtx
	rt.unwatchCtx = nil
	return stop == nil || stop()
}

// sendAndWait sends the request. With a socket it also waits for the response, and reads the beginning of it.
func (rt *roundTrip) sendAndWait() error {
	if !rt.provisional || rt.c.socket == nil {
		return rt.write(rt.request)
	}
	sent, n, err := rt.c.socket.sendAndWait(rt.request, rt.buffer.available())
	rt.buffer.w += n
	rt.received = n > 0
	switch {
	case err == nil && sent < len(rt.request):
		return rt.write(rt.request[sent:])
	case err != nil && sent == len(rt.request):
		// The next read returns the error again, or continues if only the provisional deadline has passed.
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		// The provisional deadline has passed before anything was sent.
		return rt.write(rt.request)
	}
	rt.nothingSent = err != nil
	return err
}

// write sends b, and continues after the provisional deadline.
func (rt *roundTrip) write(b []byte) error {
	for {
		n, err := rt.c.Write(b)
		if err == nil {
			return nil
		}
		if n > 0 {
			b = b[n:]
		}
		if !rt.provisional || !errors.Is(err, os.ErrDeadlineExceeded) {
			rt.nothingSent = !rt.c.secure && len(b) == len(rt.request)
			return err
		}
		rt.setFinalDeadline()
	}
}

// read reads from the upstream, and continues after the provisional deadline. After that, each read of a body sets a
// new deadline.
func (rt *roundTrip) read(b []byte) (int, error) {
	if rt.inBody && !rt.provisional {
		rt.watch()
		_ = rt.c.SetReadDeadline(deadlineAfter(rt.pool.config.StallTimeout))
	}
	for {
		n, err := rt.c.Read(b)
		if n > 0 {
			rt.received = true
			return n, nil
		}
		if err == nil {
			return 0, io.ErrNoProgress
		}
		if !rt.provisional || !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, err
		}
		rt.setFinalDeadline()
	}
}

// connError returns the Error for an error that the connection returned.
func (rt *roundTrip) connError(op string, err error) *Error {
	switch {
	case rt.ctx.Err() != nil:
		return rt.pool.contextError(rt.ctx, op)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return rt.pool.newError(FaultTimeout, op, err)
	case errors.Is(err, io.EOF):
		err = errNoResponse
		if rt.received {
			err = errTruncated
		}
	}
	return rt.pool.newError(FaultBroken, op, err)
}
