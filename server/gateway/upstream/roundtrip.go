package upstream

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"
)

// Outcome is the result of Forward.
type Outcome struct {
	// Status is the status of the response, or 0 if there was no response.
	Status int
	// Sent is true if the response's head was passed to the ResponseWriter. If Forward also returned an error, the
	// response is incomplete, and the caller must panic with http.ErrAbortHandler so that the client notices. If Forward
	// returned an error and Sent is false, the caller must respond with the error's Status.
	Sent bool
	// Bytes is the number of bytes of the response's body that were passed to the client.
	Bytes int64
	// Reused is true if the connection had served an earlier request. Retried is true if the request was sent again on a
	// new connection.
	Reused, Retried bool
	// Repeatable is true if Forward returned an error and the caller may send the request to another upstream. This
	// requires that no part of a response has arrived, that the upstream has not timed out, and that the body can still
	// be read from the start. Also, no part of the request was sent, or the request is idempotent.
	Repeatable bool
}

// A roundTrip is one request to the upstream and its response. Forward takes it from Pool.roundTrips and returns it.
type roundTrip struct {
	pool      *Pool
	ctx       context.Context
	w         http.ResponseWriter
	r         *http.Request
	overrides Head
	c         *conn

	request     []byte // the request's head, and a short body
	body        requestBody
	sender      *sender // nil if it was not started
	nothingSent bool    // it is certain that no part of the request was sent

	buffer   readBuffer
	headSize int // size of the head at the beginning of buffer
	head     responseHead
	received bool // a part of a response has arrived
	interim  struct{ bytes, count int }
	flush    func() error

	deadlines
	outcome Outcome
}

// deadlines are the timeouts of a roundTrip, and the state of its context watch, which closes the connection when the
// context ends.
type deadlines struct {
	started      time.Time   // when the connection was obtained
	headDeadline time.Time   // deadline for the response's head; zero if there is none
	provisional  bool        // the connection has a provisional deadline; see setFirstDeadline
	inBody       bool        // the response's head was passed on to the client
	unwatchCtx   func() bool // ends the watch; nil if the context is not watched
}

// Forward sends a request to the upstream, and the response to w. When Forward returns, its goroutines have ended.
//
// Hop-by-hop headers, including those that Connection names, are not sent. Headers of the response are added to those
// in w.
//
// Another goroutine may read the request's body while w is in use. So the body must not use w; the body of
// http.MaxBytesReader does, and is not allowed. The writer w, or the writer that its Unwrap method returns, must
// support http.ResponseController like the writers of net/http.
func (p *Pool) Forward(ctx context.Context, w http.ResponseWriter, r *http.Request, h Head) (Outcome, error) {
	rt := p.roundTrips.Get().(*roundTrip)
	rt.ctx, rt.w, rt.r, rt.overrides = ctx, w, r, h
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
	fault := rt.attempt()
	closedWhenReused := fault != nil && fault.Fault == FaultBroken && rt.outcome.Reused
	if !closedWhenReused || !rt.mayRepeat() {
		return fault
	}
	// The upstream has probably closed the idle connection before the request arrived.
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
		return rt.pool.newError(FaultRequest, op, err)
	}
	if rt.request, err = appendHead(rt.request[:0], rt.r, &rt.overrides, &rt.body); err != nil {
		return rt.pool.newError(FaultRequest, op, err)
	}
	if rt.body.mode != buffered {
		return nil
	}
	if rt.request, err = rt.body.appendBody(rt.request, rt.r.Body); err != nil {
		rt.closeClientConn()
		return rt.pool.newError(FaultBody, "read the request's body", err)
	}
	return nil
}

// attempt sends the request on the connection rt.c, and passes the response on to the client. After an error the
// connection cannot be reused.
func (rt *roundTrip) attempt() *Error {
	rt.received, rt.nothingSent, rt.inBody = false, false, false
	rt.head.status = 0
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

// startBody starts to send the body. If the client expects 100 Continue, startBody first waits for the upstream to send
// it.
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
	// The sender sets the deadline for the response's head when it has sent the body.
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
			err = rt.pool.newError(FaultBody, "read the request's body", s.readErr)
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

// closeClientConn makes the http.Server close the client's connection after the response, because a part of the request
// was not read.
func (rt *roundTrip) closeClientConn() {
	if rt.r.ProtoMajor == 1 {
		rt.w.Header()["Connection"] = []string{"close"}
	}
}

// returnConn returns the connection to the pool if reusable is true and nothing else prevents its reuse, such as unread
// bytes. Otherwise it closes the connection.
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
	if rt.unwatch() && reusable && rt.buffer.isEmpty() {
		if rt.head.keepAlive > 0 {
			c.limitIdle(rt.head.keepAlive)
		}
		// If the deadline is still provisional, at most 2*watchDelay have passed since rt.started.
		c.idleSince = rt.started
		if !rt.provisional {
			c.idleSince = time.Now()
		}
		rt.pool.release(c)
		return
	}
	rt.pool.discard(c)
}

// end releases everything, even if w has panicked.
func (rt *roundTrip) end() {
	if rt.c != nil {
		rt.returnConn(false)
	}
	rt.buffer.reset()
	if cap(rt.request) > maxReusedSize {
		rt.request = nil
	}
	h := &rt.head
	clear(h.announcedTrailers[:cap(h.announcedTrailers)])
	clear(h.connectionNames[:cap(h.connectionNames)])
	// Keep only allocated memory.
	*rt = roundTrip{
		pool: rt.pool, request: rt.request[:0], buffer: rt.buffer, head: h.emptyCopy(),
	}
	rt.pool.roundTrips.Put(rt)
}
