package client

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/grpcwire"
)

// A lane is a stream on which a sender makes one call after the other. A call takes a fraction of the work of a unary
// call. The zero lane has no stream yet.
type lane struct {
	stream grpc.ClientStream
	end    context.CancelFunc
	late   *time.Timer  // ends the stream when a call on it exceeds its time
	passed *atomic.Bool // it has; each stream has its own, since the timer may fire when the next one is open
	made   time.Time
}

const (
	// laneLife is how long a stream is used: another server may be less busy.
	laneLife = 10 * time.Second
	// laneIdle is how long an unused stream is kept.
	laneIdle = time.Second
	// batchStream is a stream of BatchRateLimit: each request gets its response before the next is read.
	batchStream = "/headgate.v1.RateLimiter/BatchStream"
	// unread is the message of a closing server that has not read a call.
	unread = "headgate-unread"
)

var laneDesc = grpc.StreamDesc{StreamName: "BatchStream", ServerStreams: true, ClientStreams: true}

// do makes a call with a deadline. The context is that of the stream. It returns errUnread if the server has not read
// the call.
func (l *lane) do(ctx context.Context, conn *grpc.ClientConn, deadline time.Time, q, a grpcwire.Message) error {
	if l.stream != nil && time.Since(l.made) > laneLife {
		l.close()
	}
	left := time.Until(deadline)
	if l.stream == nil {
		if err := l.open(ctx, conn, left); err != nil {
			return l.failed(err)
		}
	} else {
		l.late.Reset(left)
	}
	err := l.stream.SendMsg(q)
	ended := errors.Is(err, io.EOF) // before this call: it was not sent
	if err == nil || ended {        // RecvMsg returns why it has ended
		err = l.stream.RecvMsg(a)
	}
	if err != nil {
		if err = l.failed(err); ended && status.Code(err) == codes.Unavailable {
			err = errUnread
		}
		return err
	}
	if !l.late.Stop() { // just after the response
		l.close()
	}
	return nil
}

// open opens the stream, within the time of the first call.
func (l *lane) open(ctx context.Context, conn *grpc.ClientConn, left time.Duration) error {
	passed := &atomic.Bool{}
	l.passed = passed
	l.made = time.Now()
	ctx, l.end = context.WithCancel(ctx)
	end := l.end
	l.late = time.AfterFunc(left, func() {
		passed.Store(true)
		end()
	})
	stream, err := conn.NewStream(ctx, &laneDesc, batchStream)
	if err == nil { // with an error it may be a nil stream in a non-nil interface
		l.stream = stream
	}
	return err
}

var errUnread = errors.New("the server ended the stream before it read the call")

// failed ends a failed stream, and returns the cause.
func (l *lane) failed(err error) error {
	passed := l.passed.Load()
	if l.stream != nil && status.Code(err) == codes.Unavailable && len(l.stream.Trailer()[unread]) > 0 {
		err = errUnread
	}
	l.close()
	switch {
	case passed:
		return context.DeadlineExceeded
	case errors.Is(err, io.EOF):
		return status.Error(codes.Unavailable, "the service has ended the stream")
	}
	return err
}

// close ends the stream, if there is one.
func (l *lane) close() {
	if l.end != nil {
		l.late.Stop()
		l.end()
	}
	l.stream, l.end = nil, nil
}
