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
	errStopping  = status.Error(codes.Unavailable, "the server is shutting down")
	faultMessage = "internal error; see the server's log"
)

// codeOf returns the gRPC code and message of an error. fault means that the error is internal: the caller of codeOf
// must log it, and the message has no details.
func codeOf(err error) (code codes.Code, message string, fault bool) {
	var input *headgate.InputError
	switch {
	case errors.Is(err, engine.ErrNoRule):
		return codes.NotFound, errorText(err), false
	case errors.As(err, &input), errors.Is(err, engine.ErrLease):
		return codes.InvalidArgument, errorText(err), false
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded, "the deadline expired before the decision", false
	case errors.Is(err, context.Canceled):
		return codes.Canceled, "the caller canceled the call", false
	default:
		return codes.Internal, faultMessage, true
	}
}

// errorText returns the message of an error as valid UTF-8, which protobuf requires.
func errorText(err error) string { return strings.ToValidUTF8(err.Error(), "\ufffd") }

// statusOf returns the status that ends a call.
func (s *Server) statusOf(err error) error {
	code, message, fault := codeOf(err)
	if fault {
		s.logFault(err)
	}
	return status.Error(code, message)
}

// logFault logs an error, at most one per second.
func (s *Server) logFault(err error) {
	if s.faults.Allow(time.Second) {
		s.config.Logger.Warn("gRPC call failed", "err", err.Error(), "note", "at most one of these is logged per second")
	}
}
