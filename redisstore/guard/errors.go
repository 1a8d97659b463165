package guard

import (
	"context"
	"errors"

	"github.com/headgate/headgate"
)

// ErrUnavailable is wrapped by the errors of operations that failed because the store did not respond.
var ErrUnavailable = errors.New("the store is unavailable")

// An Error says which operation failed, where and why. It wraps ErrUnavailable and Err.
type Error struct {
	// Op is the operation: "take", "renew", "give", "reset" or "grant".
	Op string
	// Shard is the name of the shard, or empty if the store is not Sharded.
	Shard string
	// Err is the error of the store: now, or when the circuit opened.
	Err error
	// Sent reports that the store was called and did not respond, so it may have done the operation.
	Sent bool
}

func (e *Error) Error() string {
	text := e.Op
	if e.Shard != "" {
		text += " on " + e.Shard
	}
	text += ": " + ErrUnavailable.Error()
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns ErrUnavailable and Err.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrUnavailable}
	}
	return []error{ErrUnavailable, e.Err}
}

// A result says how a call ended.
type result uint8

const (
	responded result = iota // the store works, and its response stands, even if it is an error
	refused                 // the store works, but refuses to decide
	failed                  // the store does not work
	canceled                // the caller did not wait for the response
	starved                 // this process was too busy to send the call or to read the response
)

// callerErrors say nothing bad about the store: the caller made a mistake, or the store is overloaded.
var callerErrors = [...]error{
	headgate.ErrInvalidLimit, headgate.ErrInvalidCheck, headgate.ErrUnsupported, headgate.ErrNilContext,
	headgate.ErrNever, headgate.ErrClosed, headgate.ErrOverloaded,
}

// A refuser is an error that may be the refusal of a working store to decide one check.
type refuser interface {
	error
	// Refused reports whether the error is such a refusal.
	Refused() bool
}

// classify returns what the error of a call means. ctx is the caller's.
func classify(ctx context.Context, err error) result {
	if err == nil {
		return responded
	}
	for _, e := range callerErrors {
		if errors.Is(err, e) {
			return responded
		}
	}
	var input *headgate.InputError
	var refusal refuser
	switch {
	case errors.As(err, &input):
		return responded
	case ctx.Err() != nil:
		return canceled
	case errors.Is(err, headgate.ErrFull), errors.As(err, &refusal) && refusal.Refused():
		return refused
	default:
		return failed
	}
}
