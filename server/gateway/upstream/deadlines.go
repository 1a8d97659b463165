package upstream

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// watchDelay, up to twice, is how long a round trip waits for the upstream before it watches the client's context. Most
// responses arrive sooner, and need no watch.
const watchDelay = 20 * time.Millisecond

// setFirstDeadline sets the deadline for sending the request and for the response's head.
func (rt *roundTrip) setFirstDeadline() {
	now := rt.started
	rt.headDeadline = time.Time{}
	timeout := rt.pool.config.HeaderTimeout
	if timeout > 0 {
		rt.headDeadline = now.Add(timeout)
	}
	rt.provisional = !rt.c.secure && rt.body.mode != streamed && (timeout < 0 || timeout > 2*watchDelay)
	if !rt.provisional {
		// After a timeout, a write over TLS cannot be continued.
		rt.watch()
		rt.setDeadline(rt.headDeadline)
		return
	}
	// Setting a deadline is expensive, so one serves for several requests in a row.
	if rt.c.provisionalUntil.Sub(now) < watchDelay {
		rt.setDeadline(now.Add(2 * watchDelay))
		rt.c.provisionalUntil = now.Add(2 * watchDelay)
	}
}

func (rt *roundTrip) setDeadline(t time.Time) {
	rt.c.provisionalUntil = time.Time{}
	_ = rt.c.SetDeadline(t)
}

// setFinalDeadline replaces the provisional deadline, and watches the client's context from now on.
func (rt *roundTrip) setFinalDeadline() {
	rt.provisional = false
	rt.watch()
	deadline := rt.headDeadline
	if rt.inBody {
		deadline = deadlineAfter(rt.pool.config.StallTimeout)
	}
	rt.setDeadline(deadline)
}

// watch closes the connection when the context ends.
func (rt *roundTrip) watch() {
	if rt.unwatchCtx == nil {
		rt.unwatchCtx = context.AfterFunc(rt.ctx, rt.c.closeRaw)
	}
}

// unwatch ends the watch. It returns false if the watch has closed the connection, or is about to.
func (rt *roundTrip) unwatch() bool {
	stop := rt.unwatchCtx
	rt.unwatchCtx = nil
	return stop == nil || stop()
}

// sendAndWait sends the request, and may read the beginning of the response.
func (rt *roundTrip) sendAndWait() error {
	if !rt.provisional || rt.c.socket == nil {
		return rt.write(rt.request)
	}
	sent, n, err := rt.c.socket.sendAndWait(rt.request, rt.buffer.free())
	rt.buffer.w += n
	rt.received = n > 0
	switch {
	case err == nil && sent < len(rt.request):
		return rt.write(rt.request[sent:])
	case err != nil && sent == len(rt.request):
		// The next read returns the error again; it may be only that of the provisional deadline.
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return rt.write(rt.request)
	}
	rt.nothingSent = err != nil
	return err
}

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

// read reads from the upstream. In the body, each read has its own deadline.
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

// connError returns the Error for an error of the connection.
func (rt *roundTrip) connError(op string, err error) *Error {
	switch {
	case rt.ctx.Err() != nil:
		return rt.pool.contextError(rt.ctx, op)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return rt.pool.fault(FaultTimeout, op, err)
	case errors.Is(err, io.EOF):
		err = errSilent
		if rt.received {
			err = errTruncated
		}
	}
	return rt.pool.fault(FaultBroken, op, err)
}
