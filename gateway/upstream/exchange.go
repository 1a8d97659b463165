package upstream

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"
)

// Outcome tells what came of a request.
type Outcome struct {
	// Status is that of the response, 0 if there was none.
	Status int
	// Sent tells that the response's head was given to the ResponseWriter. If there is an error as well, the response is not
	// complete, and the client must not take it for that: panic with http.ErrAbortHandler. If nothing was sent, answer with
	// the error's Status.
	Sent bool
	// Bytes is how much of the response's body the client was given.
	Bytes int64
	// Reused tells that the connection had served another request before, Retried that the request was sent once more, on a
	// new one.
	Reused, Retried bool
	// Repeatable tells, if there is an error, that the request may be sent to another upstream: nothing came back, its body
	// can still be read from the start, and either this upstream got nothing of it or doing it twice does no harm.
	Repeatable bool
}

// An exchange is a request and its response. It is used again for others.
type exchange struct {
	pool *Pool
	ctx  context.Context
	w    http.ResponseWriter
	r    *http.Request
	h    Head
	c    *conn

	out    []byte // the request's head, and its body if it is whole
	body   requestBody
	sender *sender // nil if none was started
	in     inbox
	block  int // how long the head is that was read
	head   responseHead
	heard  bool // anything of a response
	nought bool // nothing of the request was sent, for sure
	flush  func() error

	stop   func() bool // ends the watch over ctx; nil if there is none
	hasty  bool        // the deadline that is set is that of patience
	now    time.Time   // when there was a connection
	limit  time.Time   // the deadline for the response's head
	inBody bool

	interims     int // bytes of interim responses
	interimCount int

	outcome Outcome
}

// Forward sends a request to the upstream and its response to w. It returns when both are done with, and has then no
// goroutine left.
//
// The caller must have cleaned the request's headers of what is for one connection only; what is left of it, such as
// headers named by Connection, is not sent. Headers of the response are added to those that w has.
//
// The body of the request may be read by another goroutine while w is in use, so a body that uses w, such as one from
// http.MaxBytesReader, must not be given one. Through w, or by its method Unwrap, an http.ResponseController must reach
// net/http's.
func (p *Pool) Forward(ctx context.Context, w http.ResponseWriter, r *http.Request, h Head) (Outcome, error) {
	x := p.exchanges.Get().(*exchange)
	x.ctx, x.w, x.r, x.h = ctx, w, r, h
	defer x.end()
	if err := x.forward(); err != nil {
		err = x.giveUp(err)
		return x.outcome, err
	}
	return x.outcome, nil
}

func (x *exchange) forward() *Error {
	if err := x.compose(); err != nil {
		return err
	}
	x.now = time.Now()
	c, err := x.pool.acquire(x.ctx, &x.now)
	if err != nil {
		x.nought = true
		return err
	}
	x.c, x.outcome.Reused = c, c.reused
	failed := x.attempt()
	if failed == nil || !x.mayRepeat() || !x.outcome.Reused || failed.Fault != FaultBroken {
		return failed
	}
	// The upstream has probably ended the connection before it saw the request.
	x.outcome.Retried, x.outcome.Reused = true, false
	x.unwatch()
	x.c = nil
	if c, err = x.pool.replace(x.ctx, &x.now, c); err != nil {
		return err
	}
	x.c = c
	return x.attempt()
}

// compose makes what is to be sent.
func (x *exchange) compose() *Error {
	const op = "send the request on"
	if x.ctx.Err() != nil {
		return x.pool.ended(x.ctx, op)
	}
	var err error
	if x.body, err = x.pool.bodyOf(x.r); err != nil {
		return x.pool.fault(FaultRequest, op, err)
	}
	if x.out, err = appendHead(x.out[:0], x.r, &x.h, &x.body); err != nil {
		return x.pool.fault(FaultRequest, op, err)
	}
	if x.body.mode != whole {
		return nil
	}
	if x.out, err = x.body.appendBody(x.out, x.r.Body); err != nil {
		x.closeAfter()
		return x.pool.fault(FaultBody, "read the request's body", err)
	}
	return nil
}

// attempt sends the request on one connection and the response to the client. After an error the connection is of no use.
func (x *exchange) attempt() *Error {
	x.heard, x.nought, x.inBody, x.head.status = false, false, false, 0
	x.interims, x.interimCount = 0, 0
	x.begin()
	if err := x.ask(); err != nil {
		return x.failed("send the request", err)
	}
	if x.body.mode == streamed {
		if err := x.startBody(); err != nil {
			return err
		}
	}
	for x.head.status < 200 {
		if err := x.readHead(); err != nil {
			return err
		}
		if err := x.interim(); err != nil {
			return err
		}
	}
	if err := x.relay(); err != nil {
		return err
	}
	x.leave(!x.head.ends)
	return nil
}

// startBody sends the body, or waits before that for the upstream to ask for it.
func (x *exchange) startBody() *Error {
	if x.body.expects {
		_ = x.c.SetReadDeadline(after(x.pool.config.ExpectTimeout))
		for x.head.status != http.StatusContinue {
			err := x.readHead()
			if err != nil && err.Fault == FaultTimeout && x.ctx.Err() == nil {
				break // it does not ask
			}
			if err != nil {
				return err
			}
			if x.head.status >= 200 {
				return nil // it does not want the body
			}
			if err := x.interim(); err != nil {
				return err
			}
		}
	}
	// The head of the response has its time when the body is sent.
	_ = x.c.SetReadDeadline(time.Time{})
	x.send()
	return nil
}

// mayRepeat reports whether the request may be sent again, after an error.
func (x *exchange) mayRepeat() bool {
	return !x.heard && !x.outcome.Sent && x.sender == nil && x.ctx.Err() == nil && (x.nought || idempotent(x.r))
}

// giveUp ends what is under way after an error, and returns the error to report.
func (x *exchange) giveUp(err *Error) *Error {
	switch err.Fault {
	case FaultBusy, FaultClosed, FaultDial, FaultTimeout, FaultBroken:
		x.outcome.Repeatable = x.mayRepeat()
	}
	if x.outcome.Repeatable && x.body.mode == whole {
		body := bytes.Clone(x.out[len(x.out)-int(x.body.length):])
		x.r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if x.c == nil {
		return err
	}
	if s := x.sender; s != nil {
		s.end()
		if s.readErr != nil {
			err = x.pool.fault(FaultBody, "read the request's body", s.readErr)
		}
	}
	if !x.outcome.Sent && !x.drained() {
		x.closeAfter()
	}
	x.leave(false)
	return err
}

// drained reports whether all of the request was read from the client.
func (x *exchange) drained() bool {
	return x.body.mode != streamed || x.sender != nil && x.sender.drained.Load()
}

// closeAfter has net/http close the client's connection after the response, as not all of the request was read from it.
func (x *exchange) closeAfter() {
	if x.r.ProtoMajor == 1 {
		x.w.Header()["Connection"] = []string{"close"}
	}
}

// leave gives the connection back: to be used again, if it may and nothing is left on it of this exchange.
func (x *exchange) leave(reusable bool) {
	c := x.c
	x.c = nil
	if s := x.sender; s != nil {
		reusable = s.end() && reusable
	} else if x.body.mode == streamed {
		reusable = false // the body that was promised was not sent
	}
	if !x.drained() && x.r.ProtoMajor == 1 {
		_ = http.NewResponseController(x.w).SetReadDeadline(after(lingerTime))
	}
	x.sender = nil
	if x.unwatch() && reusable && x.in.empty() {
		if x.head.keep > 0 {
			c.keepFor(x.head.keep)
		}
		// If it is not long ago, when it began is near enough.
		c.since = x.now
		if !x.hasty {
			c.since = time.Now()
		}
		x.pool.release(c)
		return
	}
	x.pool.discard(c)
}

// end gives everything back, also when w has panicked.
func (x *exchange) end() {
	if x.c != nil {
		x.leave(false)
	}
	x.in.reset()
	if cap(x.out) > keptBuffer {
		x.out = nil
	}
	h := &x.head
	clear(h.trailer[:cap(h.trailer)])
	clear(h.named[:cap(h.named)])
	// Only memory is kept, nothing of what happened.
	*x = exchange{
		pool: x.pool, out: x.out[:0], in: x.in,
		head: responseHead{fields: h.fields[:0], trailer: h.trailer[:0], named: h.named[:0]},
	}
	x.pool.exchanges.Put(x)
}
