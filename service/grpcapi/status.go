package grpcapi

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
)

var (
	errStopping = status.Error(codes.Unavailable, "the server is going away")
	errMessage  = "something broke; the server's log has more"
)

// codeOf returns what an error is in gRPC. Faults are those that the log should hear of; callers hear that there was one.
func codeOf(err error) (code codes.Code, message string, fault bool) {
	var input *headgate.InputError
	switch {
	case errors.Is(err, engine.ErrNoRule):
		return codes.NotFound, text(err), false
	case errors.As(err, &input), errors.Is(err, engine.ErrLease):
		return codes.InvalidArgument, text(err), false
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded, "there was no time left to decide", false
	case errors.Is(err, context.Canceled):
		return codes.Canceled, "the caller has gone", false
	default:
		return codes.Internal, errMessage, true
	}
}

// text returns an error as protobuf can carry it.
func text(err error) string { return strings.ToValidUTF8(err.Error(), "\ufffd") }

// statusOf returns the status that a call ends with.
func (s *Server) statusOf(err error) error {
	code, message, fault := codeOf(err)
	if fault {
		s.fault(err)
	}
	return status.Error(code, message)
}

// fault tells the log.
func (s *Server) fault(err error) {
	now, last := time.Now().UnixNano(), s.logged.Load()
	if now-last >= int64(time.Second) && s.logged.CompareAndSwap(last, now) {
		s.config.Logger.Warn("a call of gRPC failed", "err", err.Error(), "more", "at most one of these is logged a second")
	}
}
