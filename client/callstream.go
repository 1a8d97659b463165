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

	"github.com/headgate/headgate/proto/grpcwire"
)

// A callStream makes calls one after the other on a gRPC stream that stays open. Such a call takes less work than a
// unary call, which opens a stream of its own. The zero callStream is not open yet.
type callStream struct {
	stream   grpc.ClientStream
	end      context.CancelFunc
	timeout  *time.Timer  // cancels the stream when a call exceeds its deadline
	timedOut *atomic.Bool // set when timeout fires; one per stream, because a late timer must not mark the next stream
	opened   time.Time
}

const (
	// maxStreamAge is the age at which a stream is replaced, so that load can move to a less busy server.
	maxStreamAge = 10 * time.Second
	// maxStreamIdle is the time after which an unused stream is closed.
	maxStreamIdle = time.Second
	// batchStream is the method of the stream. Each message is a BatchRateLimitRequest, and the service responds to it
	// before it reads the next one.
	batchStream = "/headgate.v1.RateLimiter/BatchStream"
	// unreadTrailer is the trailer that a closing server sets if it has not read the last call.
	unreadTrailer = "headgate-unread"
)

var streamDesc = grpc.StreamDesc{StreamName: "BatchStream", ServerStreams: true, ClientStreams: true}

// do makes a call with a deadline. The stream outlives the call, so ctx must not end with the call. do returns
// errUnread if the server has not read the call.
func (s *callStream) do(
	ctx context.Context, conn *grpc.ClientConn, deadline time.Time, request, response grpcwire.Message,
) error {
	if s.stream != nil && time.Since(s.opened) > maxStreamAge {
		s.close()
	}
	timeout := time.Until(deadline)
	if s.stream == nil {
		if err := s.open(ctx, conn, timeout); err != nil {
			return s.fail(err)
		}
	} else {
		s.timeout.Reset(timeout)
	}
	err := s.stream.SendMsg(request)
	ended := errors.Is(err, io.EOF) // the stream has ended, and the request was not sent
	if err == nil || ended {        // RecvMsg returns the response, or the reason why the stream has ended
		err = s.stream.RecvMsg(response)
	}
	if err != nil {
		if err = s.fail(err); ended && status.Code(err) == codes.Unavailable {
			err = errUnread
		}
		return err
	}
	if !s.timeout.Stop() { // the timer fired just after the response arrived, and has canceled the stream
		s.close()
	}
	return nil
}

// open opens the stream. The first call on it ends after timeout.
func (s *callStream) open(ctx context.Context, conn *grpc.ClientConn, timeout time.Duration) error {
	timedOut := &atomic.Bool{}
	s.timedOut = timedOut
	s.opened = time.Now()
	ctx, s.end = context.WithCancel(ctx)
	end := s.end
	s.timeout = time.AfterFunc(timeout, func() {
		timedOut.Store(true)
		end()
	})
	stream, err := conn.NewStream(ctx, &streamDesc, batchStream)
	if err == nil { // after an error, stream may be a non-nil interface with a nil pointer
		s.stream = stream
	}
	return err
}

var errUnread = errors.New("the server ended the stream before it read the call")

// fail closes the stream after an error, and returns the error to report.
func (s *callStream) fail(err error) error {
	timedOut := s.timedOut.Load()
	if s.stream != nil && status.Code(err) == codes.Unavailable && len(s.stream.Trailer()[unreadTrailer]) > 0 {
		err = errUnread
	}
	s.close()
	switch {
	case timedOut:
		return context.DeadlineExceeded
	case errors.Is(err, io.EOF):
		return status.Error(codes.Unavailable, "the service has ended the stream")
	}
	return err
}

// close ends the stream, if there is one.
func (s *callStream) close() {
	if s.end != nil {
		s.timeout.Stop()
		s.end()
	}
	s.stream, s.end = nil, nil
}
