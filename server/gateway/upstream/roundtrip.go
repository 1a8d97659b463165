package upstream

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"
)

// Outcome is the result of a request.
type Outcome struct {
	// Status is the status of the response, 0 if there was none.
	Status int
	// Sent: the response's head was passed to the ResponseWriter. If there is an error as well, the response is
	// incomplete, and the client must notice: panic with http.ErrAbortHandler. If Sent is false, respond with the error's
	// Status.
	Sent bool
	// Bytes is how much of the response's body was passed to the client.
	Bytes int64
	// Reused: the connection had served another request before. Retried: the request was sent again on a new connection.
	Reused, Retried bool
	// Repeatable: if there is an error, the request may be sent to another upstream. No response has arrived, nor has one
	// been waited for too long, its body can still be read from the start, and either no part of it was sent, or the
	// request is idempotent.
	Repeatable bool
}

// A roundTrip is one request to the upstream and its response. It is reused.
type roundTrip struct {
	pool   *Pool
	ctx    context.Context
	w      http.ResponseWriter
	r      *http.Request
	caller Head
	c      *conn

	request     []byte // the request's head, and a short body
	body        requestBody
	sender      *sender // nil if it was not started
	nothingSent bool    // no part of the request was sent, for certain

	buffer   readBuffer
	headSize int // of the head at the beginning of buffer
	head     responseHead
	received bool // a part of a response has arrived
	interim  struct{ bytes, count int }
	flush    func() error

	deadlines
	outcome Outcome
}

// deadlines are the timeouts of a roundTrip, and its watch over the context.
type deadlines struct {
	started      time.Time   // when there was a connection
	headDeadline time.Time   // for the response's head
	provisional  bool        // the connection's deadline is only that of watchDelay; see setFirstDeadline
	inBody       bool        // the response's head was passed on
	unwatchCtx   func() bool // ends the watch over ctx; nil if there is none
}

// Forward sends a request to the upstream and its response to w. When it returns, its goroutines have ended.
//
// Hop-by-hop headers, including those that Connection names, are not sent. Headers of the response are added to those
// in w.
//
// Another goroutine may read the request's body while w is in use, so the body must not use w, as that of
// http.MaxBytesReader does. w, or the writer that it unwraps to, must support http.ResponseController like net/http's.
func (p *Pool) Forward(ctx context.Context, w http.ResponseWriter, r *http.Request, h Head) (Outcome, error) {
	rt := p.roundTrips.Get().(*roundTrip)
	rt.ctx, rt.w, rt.r, rt.caller = ctx, w, r, h
	defer rt.end()
	if err := rt.forward(); err != nil {
		err = rt.fail(err)
		return rt.outcome, err
	}
	return rt.outcome, nil
}

func (rt *roundTrip) forward() *Error {
	if err := rt.buildRequest(); err != nil {
		return err
	}
	rt.started = time.Now()
	c, err := rt.pool.acquire(rt.ctx, &rt.started)
	if err != nil {
		rt.nothingSent = true
		return err
	}
	rt.c, rt.outcome.Reused = c, c.reused
	failed := rt.attempt()
	if failed == nil || !rt.mayRepeat() || !rt.outcome.Reused || failed.Fault != FaultBroken {
		return failed
	}
	// The upstream has probably closed the idle connection before it received the request.
	rt.outcome.Retried, rt.outcome.Reused = true, false
	rt.unwatch()
	rt.c = nil
	if c, err = rt.pool.replace(rt.ctx, &rt.started, c); err != nil {
		return err
	}
	rt.c = c
	return rt.attempt()
}

// buildRequest builds the bytes to send.
func (rt *roundTrip) buildRequest() *Error {
	const op = "forward the request"
	if rt.ctx.Err() != nil {
		return rt.pool.contextError(rt.ctx, op)
	}
	var err error
	if rt.body, err = rt.pool.describeBody(rt.r); err != nil {
		return rt.pool.fault(FaultRequest, op, err)
	}
	if rt.request, err = appendHead(rt.request[:0], rt.r, &rt.caller, &rt.body); err != nil {
		return rt.pool.fault(FaultRequest, op, err)
	}
	if rt.body.mode != buffered {
		return nil
	}
	if rt.request, err = rt.body.appendBody(rt.request, rt.r.Body); err != nil {
		rt.closeClientConn()
		return rt.pool.fault(FaultBody, "read the request's body", err)
	}
	return nil
}

// attempt sends the request on one connection, and the response to the client. After an error the connection cannot be
// reused.
func (rt *roundTrip) attempt() *Error {
	rt.received, rt.nothingSent, rt.inBody, rt.head.status = false, false, false, 0
	rt.interim.bytes, rt.interim.count = 0, 0
	rt.setFirstDeadline()
	if err := rt.sendAndWait(); err != nil {
		return rt.connError("send the request", err)
	}
	if rt.body.mode == streamed {
		if err := rt.startBody(); err != nil {
			return err
		}
	}
	for rt.head.status < 200 {
		if err := rt.readHead(); err != nil {
			return err
		}
		if err := rt.relayInterim(); err != nil {
			return err
		}
	}
	if err := rt.relay(); err != nil {
		return err
	}
	rt.returnConn(!rt.head.closesConn)
	return nil
}

// startBody starts to send the body. If the client expects 100 Continue, it first waits until the upstream sends that.
func (rt *roundTrip) startBody() *Error {
	if rt.body.expectsContinue {
		_ = rt.c.SetReadDeadline(deadlineAfter(rt.pool.config.ExpectTimeout))
		for rt.head.status != http.StatusContinue {
			err := rt.readHead()
			if err != nil && err.Fault == FaultTimeout && rt.ctx.Err() == nil {
				break // the upstream sends no 100
			}
			if err != nil {
				return err
			}
			if rt.head.status >= 200 {
				return nil // the upstream does not want the body
			}
			if err := rt.relayInterim(); err != nil {
				return err
			}
		}
	}
	// The deadline for the response's head begins when the body is sent.
	_ = rt.c.SetReadDeadline(time.Time{})
	rt.startSender()
	return nil
}

// mayRepeat reports whether the request may be sent again after an error.
func (rt *roundTrip) mayRepeat() bool {
	return !rt.received && !rt.outcome.Sent && rt.sender == nil && rt.ctx.Err() == nil &&
		(rt.nothingSent || isIdempotent(rt.r))
}

// fail ends the round trip after an error, and returns the error to report.
func (rt *roundTrip) fail(err *Error) *Error {
	switch err.Fault {
	case FaultBusy, FaultClosed, FaultDial, FaultBroken:
		rt.outcome.Repeatable = rt.mayRepeat()
	}
	if rt.outcome.Repeatable && rt.body.mode == buffered {
		body := bytes.Clone(rt.request[len(rt.request)-int(rt.body.length):])
		rt.r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if rt.c == nil {
		return err
	}
	if s := rt.sender; s != nil {
		s.stop()
		if s.readErr != nil {
			err = rt.pool.fault(FaultBody, "read the request's body", s.readErr)
		}
	}
	if !rt.outcome.Sent && !rt.bodyWasRead() {
		rt.closeClientConn()
	}
	rt.returnConn(false)
	return err
}

// bodyWasRead reports whether all of the request was read from the client.
func (rt *roundTrip) bodyWasRead() bool {
	return rt.body.mode != streamed || rt.sender != nil && rt.sender.bodyRead.Load()
}

// closeClientConn lets the server close the client's connection after the response, because a part of the request was
// not read.
func (rt *roundTrip) closeClientConn() {
	if rt.r.ProtoMajor == 1 {
		rt.w.Header()["Connection"] = []string{"close"}
	}
}

// returnConn returns the connection to the pool, for reuse if that is possible and no bytes are left on it.
func (rt *roundTrip) returnConn(reusable bool) {
	c := rt.c
	rt.c = nil
	if s := rt.sender; s != nil {
		reusable = s.stop() && reusable
	} else if rt.body.mode == streamed {
		reusable = false // the announced body was not sent
	}
	if !rt.bodyWasRead() && rt.r.ProtoMajor == 1 {
		_ = http.NewResponseController(rt.w).SetReadDeadline(deadlineAfter(lingerTime))
	}
	rt.sender = nil
	if rt.unwatch() && reusable && rt.buffer.empty() {
		if rt.head.keepAlive > 0 {
			c.limitIdle(rt.head.keepAlive)
		}
		// If the deadline is still provisional, started is recent enough.
		c.idleSince = rt.started
		if !rt.provisional {
			c.idleSince = time.Now()
		}
		rt.pool.release(c)
		return
	}
	rt.pool.discard(c)
}

// end releases everything, also if w has panicked.
func (rt *roundTrip) end() {
	if rt.c != nil {
		rt.returnConn(false)
	}
	rt.buffer.reset()
	if cap(rt.request) > maxReusedBuffer {
		rt.request = nil
	}
	h := &rt.head
	clear(h.announcedTrailers[:cap(h.announcedTrailers)])
	clear(h.connectionNames[:cap(h.connectionNames)])
	// Only memory is reused.
	*rt = roundTrip{
		pool: rt.pool, request: rt.request[:0], buffer: rt.buffer, head: h.emptied(),
	}
	rt.pool.roundTrips.Put(rt)
}
