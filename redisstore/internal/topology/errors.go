package topology

import (
	"context"
	"errors"
	"fmt"
)

// Classes of errors, for errors.Is.
var (
	// ErrUnreachable is the class of errors of calls that were not sent.
	ErrUnreachable = errors.New("server unreachable")
	// ErrNoResponse is the class of errors of calls that were sent and got no response. They may have been executed.
	ErrNoResponse = errors.New("no response from the server")
)

// A ServerError says what is wrong with a server, or with the network to it, and how to fix it. It wraps
// ErrUnreachable, ErrNoResponse or headgate.ErrFull if it belongs to one of these classes. Errors of no class were
// refused by the server and took nothing.
type ServerError struct {
	// Server is the server's address, or the name that its sentinels have for it.
	Server string
	// Problem says what is wrong, as a predicate of Server.
	Problem string
	// Fix says what to do. It is empty if waiting is all there is to do.
	Fix string
	// Err is the cause: the server's reply, or an error of the network.
	Err error
	// Permanent reports that the error does not go away by waiting.
	Permanent bool
	// OneKey reports that the error concerns one key only, and the server works.
	OneKey bool

	class error // ErrUnreachable, ErrNoResponse, headgate.ErrFull or nil
}

// Refused reports whether the server works and only this key cannot be decided, because it has a value of another
// program.
func (e *ServerError) Refused() bool { return e.OneKey }

func (e *ServerError) Error() string {
	s := "redisstore: " + e.Server + ": " + e.Problem
	if e.Err != nil {
		s += " (" + e.Err.Error() + ")"
	}
	if e.Fix != "" {
		s += ": " + e.Fix
	}
	return s
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

// sameProblem reports whether two errors say the same. The causes may differ, for example in the local port.
func sameProblem(a, b error) bool {
	var x, y *ServerError
	if errors.As(a, &x) && errors.As(b, &y) {
		return x.Server == y.Server && x.Problem == y.Problem && x.Fix == y.Fix
	}
	return a.Error() == b.Error()
}

// IsPermanent reports whether an error does not go away by waiting.
func IsPermanent(err error) bool {
	var e *ServerError
	return errors.As(err, &e) && e.Permanent
}

// unreachable returns the error of a call that was not sent.
func unreachable(server string, cause error) *ServerError {
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

// malformedReply returns the error of a reply that cannot be parsed.
func malformedReply(server, command string, err error) error {
	return &ServerError{
		Server: server, Problem: fmt.Sprintf("sent a malformed reply to %s", command), Err: err,
		Fix: "make sure that it is Redis or Valkey, and that no proxy changes replies",
	}
}
