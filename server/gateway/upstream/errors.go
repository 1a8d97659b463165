package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"syscall"
)

// A Fault is the reason why a request was not served.
type Fault uint8

// The faults. The number at the end of each comment is the status of the response; see Error.Status.
const (
	// FaultRequest: the request cannot be forwarded, because its head is invalid or its method is CONNECT. 400.
	FaultRequest Fault = iota + 1
	// FaultBody: the request's body could not be read. 400; 408 after a timeout, 413 if it is too large.
	FaultBody
	// FaultClient: the client has disconnected. 499, which is never sent.
	FaultClient
	// FaultBusy: no connection is free, and none can be opened, because MaxConns are open or no file descriptor is left.
	// Either too many requests wait for a connection, or this request has waited for too long. 503.
	FaultBusy
	// FaultClosed: the pool is closed. 503.
	FaultClosed
	// FaultDial: the upstream is unreachable, so nothing was sent. 502, or 504 after a timeout.
	FaultDial
	// FaultTimeout: the upstream did not respond in time, or stopped sending its response. 504.
	FaultTimeout
	// FaultBroken: the upstream closed the connection before its response was complete. 502.
	FaultBroken
	// FaultResponse: the upstream sent an invalid response. 502.
	FaultResponse
	// FaultUpgrade: the upstream switched protocols, which this package does not support. 502.
	FaultUpgrade
)

var faultNames = [...]string{
	FaultRequest: "request", FaultBody: "body", FaultClient: "client", FaultBusy: "busy", FaultClosed: "closed",
	FaultDial: "dial", FaultTimeout: "timeout", FaultBroken: "broken", FaultResponse: "response", FaultUpgrade: "upgrade",
}

// String returns the name of the fault, as in the labels of metrics.
func (f Fault) String() string {
	if int(f) < len(faultNames) && faultNames[f] != "" {
		return faultNames[f]
	}
	return "unknown"
}

// An Error is the type of all errors that Forward returns.
type Error struct {
	Fault Fault
	// Op is the operation that failed, such as "read the response".
	Op string
	// Address is the configured address of the upstream.
	Address string
	// Err is the cause.
	Err error
}

func (e *Error) Error() string { return "upstream " + e.Address + ": " + e.Op + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Status returns the status of the response to the client, if none has been sent yet.
func (e *Error) Status() int {
	switch e.Fault {
	case FaultRequest:
		return http.StatusBadRequest
	case FaultBody:
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(e.Err, &tooLarge):
			return http.StatusRequestEntityTooLarge
		case isTimeout(e.Err):
			return http.StatusRequestTimeout
		}
		return http.StatusBadRequest
	case FaultClient:
		return StatusClientGone
	case FaultBusy, FaultClosed:
		return http.StatusServiceUnavailable
	case FaultTimeout:
		return http.StatusGatewayTimeout
	case FaultDial:
		if isTimeout(e.Err) {
			return http.StatusGatewayTimeout
		}
	}
	return http.StatusBadGateway
}

// StatusClientGone is the status in logs and statistics of a request whose client has disconnected. It is never sent.
const StatusClientGone = 499

func isTimeout(err error) bool {
	var n net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &n) && n.Timeout()
}

// IsTooManyOpenFiles reports whether an error means that this process or system has no file descriptor left.
func IsTooManyOpenFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

func (p *Pool) newError(f Fault, op string, err error) *Error {
	return &Error{Fault: f, Op: op, Address: p.config.Address, Err: err}
}

// contextError returns the Error for a context that has ended. If its deadline has passed, the upstream was too slow;
// otherwise the client has disconnected.
func (p *Pool) contextError(ctx context.Context, op string) *Error {
	if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
		return p.newError(FaultTimeout, op, err)
	}
	return p.newError(FaultClient, op, context.Cause(ctx))
}

// Reasons why requests and responses are refused.
var (
	errMethod            = errors.New("the method is invalid")
	errConnect           = errors.New("CONNECT is not forwarded")
	errUpgrade           = errors.New("101 Switching Protocols")
	errTarget            = errors.New("the target is not a path that begins with a slash")
	errHost              = errors.New("the host is invalid")
	errFraming           = errors.New("Head.Fields has a header that this package sets itself")
	errNoBody            = errors.New("the request has a length but no body")
	errStatusLine        = errors.New("the status line is invalid")
	errVersion           = errors.New("the response is not HTTP/1")
	errFolded            = errors.New("a header is folded over several lines")
	errBareLF            = errors.New("a line ends without a carriage return")
	errHeadSize          = errors.New("the response's headers are too large")
	errLength            = errors.New("the Content-Length is invalid")
	errLengths           = errors.New("several Content-Lengths differ")
	errEncoding          = errors.New("the Transfer-Encoding is other than chunked")
	errLengthAndEncoding = errors.New("there are both Content-Length and Transfer-Encoding")
	errTrailerName       = errors.New("the header announces a trailer that is not allowed as a trailer")
	errTooManyInterim    = errors.New("too many interim responses")
	errNoResponse        = errors.New("the connection was closed before a response arrived")
	errTruncated         = errors.New("the connection was closed before the response was complete")
	errTooManyWaiting    = errors.New("too many requests wait for a connection")
	errWaitTimeout       = errors.New("no connection became free in time")
	errClosed            = errors.New("the pool is closed")
	errProtocol          = errors.New("the TLS handshake negotiated a protocol other than HTTP/1.1")
)
