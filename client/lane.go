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

// A lane is a stream on which a sender makes one call after the other. Each takes a fraction of the work, here and there, that
// a call of its own takes. The zero lane has no stream yet.
type lane struct {
	stream grpc.ClientStream
	end    context.CancelFunc
	late   *time.Timer  // ends the stream when a call on it has used up its time
	passed *atomic.Bool // it has; each stream has its own, since it may be told when the next is open
	made   time.Time
}

const (
	// laneLife is how long a stream is used: where there are several servers, another may be less busy.
	laneLife = 10 * time.Second
	// laneIdle is for how long one is kept that is not used.
	laneIdle = time.Second
	// batchStream is BatchRateLimit again and again: each request is answered before the next is read.
	batchStream = "/headgate.v1.RateLimiter/BatchStream"
	// unread is what a server says that has not read a call, as it is about to end.
	unread = "headgate-unread"
)

var laneDesc = grpc.StreamDesc{StreamName: "BatchStream", ServerStreams: true, ClientStreams: true}

// do makes a call, which has time until the deadline. The context is that of the stream. It returns errUnread if the server
// has not seen the call.
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
	if err == nil || ended {        // why it has ended is told to who receives
		err = l.stream.RecvMsg(a)
	}
	if err != nil {
		if err = l.failed(err); ended && status.Code(err) == codes.Unavailable {
			err = errUnread
		}
		return err
	}
	if !l.late.Stop() { // just after the answer
		l.close()
	}
	return nil
}

// open opens the stream. It has as much time as the first call.
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
	if err == nil { // with an error there may be one that is none
		l.stream = stream
	}
	return err
}

var errUnread = errors.New("the server ended the stream before it read the call")

// failed ends a stream that has failed, and returns why it has.
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
