package headgate

import (
	"errors"
	"strconv"
)

// Errors to compare with [errors.Is]. Unless an error's comment says otherwise, no units were taken.
var (
	// ErrInvalidLimit is wrapped by every [*InputError] about a Limit.
	ErrInvalidLimit = errors.New("invalid limit")
	// ErrInvalidCheck is wrapped by every [*InputError] about another field of a Check.
	ErrInvalidCheck = errors.New("invalid check")
	// ErrNilContext is returned when ctx is nil.
	ErrNilContext = errors.New("nil context: pass context.Background() or the request's")
	// ErrNever is returned by [Wait] and [Hold] for a cost that can never pass, however long they wait.
	ErrNever = errors.New("this cost can never pass")
	// ErrUnsupported is returned for an operation that the limit's algorithm does not support.
	ErrUnsupported = errors.New("unsupported by this algorithm")
	// ErrFull is returned by a store with a memory limit that has no room for a new key.
	ErrFull = errors.New("store is full: raise its memory limit")
	// ErrOverloaded is returned by a Limiter that cannot decide all its checks in time. There is no decision, but units
	// may have been taken. Retry after a second.
	ErrOverloaded = errors.New("overloaded: too many checks wait to be decided")
	// ErrClosed is returned by a Limiter that was closed.
	ErrClosed = errors.New("limiter is closed")
)

// An InputError says what is wrong with a Limit, a Check or an option, and what would be valid.
type InputError struct {
	// Err is ErrInvalidLimit or ErrInvalidCheck, or an error of another package, such as pacer.ErrInvalidOption.
	Err error
	// Field is the name of the invalid field, such as "Count".
	Field string
	// Value is the invalid value, shortened if it is long.
	Value string
	// Want describes the valid values.
	Want string
}

func (e *InputError) Error() string {
	return e.Err.Error() + ": " + e.Field + " " + e.Value + ": want " + e.Want
}

// Unwrap returns Err.
func (e *InputError) Unwrap() error { return e.Err }

func badLimit(field, value, want string) error {
	return &InputError{Err: ErrInvalidLimit, Field: field, Value: value, Want: want}
}

func badCheck(field, value, want string) error {
	return &InputError{Err: ErrInvalidCheck, Field: field, Value: value, Want: want}
}

// quote quotes a value for an error message, and shortens a long one.
func quote(s string) string {
	const maxBytes = 64
	if len(s) > maxBytes {
		return strconv.Quote(s[:maxBytes]) + "… (" + strconv.Itoa(len(s)) + " bytes)"
	}
	return strconv.Quote(s)
}
