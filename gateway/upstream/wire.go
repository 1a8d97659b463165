package upstream

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// patience, up to twice, is how long we wait for the upstream before we look whether the client still does. Most responses
// come sooner, and need not be watched over.
const patience = 20 * time.Millisecond

// begin sets the deadline for what comes first.
func (x *exchange) begin() {
	now := x.now
	x.limit = time.Time{}
	timeout := x.pool.config.HeaderTimeout
	if timeout > 0 {
		x.limit = now.Add(timeout)
	}
	x.hasty = !x.c.secure && x.body.mode != streamed && (timeout < 0 || timeout > 2*patience)
	if !x.hasty {
		// A write over TLS that timed out cannot be continued.
		x.watch()
		x.setDeadline(x.limit)
		return
	}
	// Setting a deadline takes time, so one serves for several requests that follow each other.
	if x.c.alarm.Sub(now) < patience {
		x.setDeadline(now.Add(2 * patience))
		x.c.alarm = now.Add(2 * patience)
	}
}

func (x *exchange) setDeadline(t time.Time) {
	x.c.alarm = time.Time{}
	_ = x.c.SetDeadline(t)
}

// settle goes from the deadline of patience to that which holds, and looks after the client from now on.
func (x *exchange) settle() {
	x.hasty = false
	x.watch()
	deadline := x.limit
	if x.inBody {
		deadline = after(x.pool.config.StallTimeout)
	}
	x.setDeadline(deadline)
}

// watch hangs up on the upstream when the client has gone.
func (x *exchange) watch() {
	if x.stop == nil {
		x.stop = context.AfterFunc(x.ctx, x.c.hangUp)
	}
}

// unwatch ends the watch. It reports whether the connection was left alone until now, and will be.
func (x *exchange) unwatch() bool {
	stop := x.stop
	x.stop = nil
	return stop == nil || stop()
}

// ask sends what is to be sent, and may read what comes back first.
func (x *exchange) ask() error {
	if !x.hasty || x.c.socket == nil {
		return x.write(x.out)
	}
	sent, n, err := x.c.socket.ask(x.out, x.in.room())
	x.in.w += n
	x.heard = n > 0
	switch {
	case err == nil && sent < len(x.out):
		return x.write(x.out[sent:])
	case err != nil && sent == len(x.out):
		// What reading failed with is met again by who reads on; it may be only that patience is over.
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return x.write(x.out)
	}
	x.nought = err != nil
	return err
}

func (x *exchange) write(b []byte) error {
	for {
		n, err := x.c.Write(b)
		if err == nil {
			return nil
		}
		if n > 0 {
			b = b[n:]
		}
		if !x.hasty || !errors.Is(err, os.ErrDeadlineExceeded) {
			x.nought = !x.c.secure && len(b) == len(x.out)
			return err
		}
		x.settle()
	}
}

// read reads what the upstream has sent. In the body, each read has its own deadline.
func (x *exchange) read(b []byte) (int, error) {
	if x.inBody && !x.hasty {
		x.watch()
		_ = x.c.SetReadDeadline(after(x.pool.config.StallTimeout))
	}
	for {
		n, err := x.c.Read(b)
		if n > 0 {
			x.heard = true
			return n, nil
		}
		if err == nil {
			return 0, io.ErrNoProgress
		}
		if !x.hasty || !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, err
		}
		x.settle()
	}
}

// failed makes an error of one of the connection.
func (x *exchange) failed(op string, err error) *Error {
	switch {
	case x.ctx.Err() != nil:
		return x.pool.ended(x.ctx, op)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return x.pool.fault(FaultTimeout, op, err)
	case errors.Is(err, io.EOF):
		err = errSilent
		if x.heard {
			err = errTruncated
		}
	}
	return x.pool.fault(FaultBroken, op, err)
}
