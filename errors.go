package headgate

import (
	"errors"
	"strconv"
)

// Errors that callers tell apart with [errors.Is]. None of them changes any state.
var (
	// ErrInvalidLimit is wrapped by every complaint about a Limit, and is an [*InputError].
	ErrInvalidLimit = errors.New("invalid limit")
	// ErrInvalidCheck is wrapped by every complaint about the rest of a Check, and is an [*InputError].
	ErrInvalidCheck = errors.New("invalid check")
	// ErrNilContext is returned when ctx is nil.
	ErrNilContext = errors.New("nil context: pass context.Background() or the request's")
	// ErrNever is returned by [Wait] for a cost that no amount of waiting lets pass.
	ErrNever = errors.New("cost is above the limit's capacity and can never pass")
	// ErrUnsupported is returned for an operation that the limit's algorithm does not have.
	ErrUnsupported = errors.New("unsupported by this algorithm")
	// ErrFull is returned by a bounded store that has no room for a new key.
	ErrFull = errors.New("store is full: raise its memory limit")
	// ErrOverloaded is returned by a Limiter that has more to decide than it can decide in time. The check was not decided;
	// units may have been taken for it. Retry after a second.
	ErrOverloaded = errors.New("overloaded: too many checks wait to be decided")
	// ErrClosed is returned by a Limiter that was closed.
	ErrClosed = errors.New("limiter is closed")
)

// InputError says what is wrong with a Limit or a Check, and what would be right.
type InputError struct {
	// Err is ErrInvalidLimit or ErrInvalidCheck.
	Err error
	// Field is the part that is wrong, such as "Count".
	Field string
	// Value is what was given, shortened if it is long.
	Value string
	// Want says what would be right.
	Want string
}

func (e *InputError) Error() string {
	return e.Err.Error() + ": " + e.Field + " " + e.Value + ": want " + e.Want
}

// Unwrap returns ErrInvalidLimit or ErrInvalidCheck.
func (e *InputError) Unwrap() error { return e.Err }

func badLimit(field, value, want string) error {
	return &InputError{Err: ErrInvalidLimit, Field: field, Value: value, Want: want}
}

func badCheck(field, value, want string) error {
	return &InputError{Err: ErrInvalidCheck, Field: field, Value: value, Want: want}
}

// quote shows a value in an error without letting a long one flood the log.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.Quote(s[:most]) + "… (" + strconv.Itoa(len(s)) + " bytes)"
	}
	return strconv.Quote(s)
}
