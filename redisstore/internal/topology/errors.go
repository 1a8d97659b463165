package topology

import (
	"context"
	"errors"
	"fmt"
)

// Classes of errors, for errors.Is.
var (
	// ErrUnreachable is the class of errors for calls that were not sent.
	ErrUnreachable = errors.New("server unreachable")
	// ErrNoResponse is the class of errors for calls that were sent and got no response. The server may have executed
	// them.
	ErrNoResponse = errors.New("no response from the server")
)

// A ServerError describes a problem of a server, or of the network to it, and how to fix the problem. It wraps
// ErrUnreachable, ErrNoResponse or headgate.ErrFull if it belongs to one of these classes. If it belongs to no class,
// the server refused the call, and nothing was taken.
type ServerError struct {
	// Server is the server's address, or the sentinels' name for the primary.
	Server string
	// Problem says what is wrong, as a sentence without its subject, Server: "is out of memory".
	Problem string
	// Fix says how to fix the problem. It is empty if waiting is all that can be done.
	Fix string
	// Err is the cause: the server's error reply, or a network error.
	Err error
	// Permanent is set if the error does not go away by waiting.
	Permanent bool
	// OneKey is set if the error concerns only one key, and the server works.
	OneKey bool

	class error // ErrUnreachable, ErrNoResponse, headgate.ErrFull or nil
}

// Refused reports whether the server works and only this key cannot be decided, because another program has stored a
// value under it.
func (e *ServerError) Refused() bool { return e.OneKey }

func (e *ServerError) Error() string {
	text := "redisstore: " + e.Server + ": " + e.Problem
	if e.Err != nil {
		text += " (" + e.Err.Error() + ")"
	}
	if e.Fix != "" {
		text += ": " + e.Fix
	}
	return text
}

// Unwrap returns the class of the error and its cause.
func (e *ServerError) Unwrap() []error {
	var all []error
	for _, err := range []error{e.class, e.Err} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// sameProblem reports whether two errors describe the same problem. Their causes may differ, for example in the local
// port.
func sameProblem(err1, err2 error) bool {
	var e1, e2 *ServerError
	if errors.As(err1, &e1) && errors.As(err2, &e2) {
		return e1.Server == e2.Server && e1.Problem == e2.Problem && e1.Fix == e2.Fix
	}
	return err1.Error() == err2.Error()
}

// IsPermanent reports whether an error does not go away by waiting.
func IsPermanent(err error) bool {
	var e *ServerError
	return errors.As(err, &e) && e.Permanent
}

// preferPermanent returns the first permanent error or, if none is permanent, the first error. first may be nil.
func preferPermanent(first, second error) error {
	if first == nil || IsPermanent(second) && !IsPermanent(first) {
		return second
	}
	return first
}

// unreachableError returns the error for a call that was not sent.
func unreachableError(server string, cause error) *ServerError {
	var e *ServerError
	if errors.As(cause, &e) {
		clone := *e
		clone.class = ErrUnreachable
		return &clone
	}
	problem := "is unreachable"
	if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		problem = "was not called, because no time was left"
	}
	return &ServerError{Server: server, Problem: problem, Err: cause, class: ErrUnreachable}
}

// malformedReply returns the error for a reply that cannot be parsed.
func malformedReply(server, command string, err error) error {
	return &ServerError{
		Server: server, Problem: fmt.Sprintf("sent a malformed reply to %s", command), Err: err,
		Fix: "make sure that it is Redis or Valkey, and that no proxy changes replies",
	}
}
