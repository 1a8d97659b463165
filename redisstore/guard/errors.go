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
	// Err is the error of the store. If the circuit is open, it is the error because of which it opened.
	Err error
	// Sent reports whether the store was called. It did not respond, so it may have done the operation.
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
	responded result = iota // the store works, and the caller gets its response, even if this is an error
	rejected                // the store works, but refuses to decide
	failed                  // the store does not work
	canceled                // the caller did not wait for the response
	starved                 // this process was too busy to send the call or to read the response
)

// callerErrors are not failures of the store: the caller made a mistake, or the store is closed or overloaded.
var callerErrors = [...]error{
	headgate.ErrInvalidLimit, headgate.ErrInvalidCheck, headgate.ErrUnsupported, headgate.ErrNilContext,
	headgate.ErrNever, headgate.ErrClosed, headgate.ErrOverloaded,
}

// A refuser is an error of a store that may still work. redisstore.ServerError implements it.
type refuser interface {
	error
	// Refused reports whether the store works and only refuses to decide this check.
	Refused() bool
}

// classify returns how a call with the given error ended. ctx is the caller's context.
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
		return rejected
	default:
		return failed
	}
}
