package pacer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Errors that callers tell apart with [errors.Is]. None of them changes any state.
var (
	// ErrInvalidOption is wrapped by every complaint about an option or a rate, and is an [*InputError].
	ErrInvalidOption = errors.New("invalid option")
	// ErrInvalidCount is wrapped when fewer than one permit, token or unit is asked for, and is an [*InputError].
	ErrInvalidCount = errors.New("invalid count")
	// ErrNever is wrapped when no amount of waiting lets a count pass, and is an [*InputError]: it is above what the pacer
	// ever has at once, or it and those in line together take more than 73 years. The latter may pass when fewer are in
	// line. Callers in line get it as well, when a new rate makes it so.
	ErrNever = errors.New("count can never pass")
	// ErrNilContext is returned when ctx is nil.
	ErrNilContext = errors.New("nil context: pass context.Background() or the request's")
	// ErrNilJob is returned by [Queue.Submit] when there is nothing to run.
	ErrNilJob = errors.New("nil job: pass a function, or use Acquire")
	// ErrDeadline is what a [*DeadlineError] is: the context's deadline comes before the turn would.
	ErrDeadline = errors.New("deadline comes before the turn")
	// ErrQueueFull is wrapped when an item does not fit into the room that is left in a [Queue].
	ErrQueueFull = errors.New("queue is full")
	// ErrTooManyReservations is wrapped when a pacer has [MaxReservations] outstanding.
	ErrTooManyReservations = errors.New("too many reservations")
	// ErrJobExited is the result of a job that ended its goroutine, with [runtime.Goexit], instead of returning.
	ErrJobExited = errors.New("job ended its goroutine instead of returning")
	// ErrClosed is returned by a [Queue] or [TokenQueue] that was closed, also to those who were waiting.
	ErrClosed = errors.New("closed")
	// ErrUninitialized is returned by the methods of a pacer that its New function did not make.
	ErrUninitialized = errors.New("uninitialized pacer: make it with its New function")
)

// InputError says what is wrong with an option or a count, and what would be right.
type InputError struct {
	// Err is ErrInvalidOption, ErrInvalidCount or ErrNever.
	Err error
	// Field is what is wrong, such as "Rate.Per".
	Field string
	// Value is what was given.
	Value string
	// Want says what would be right.
	Want string
}

func (e *InputError) Error() string {
	return e.Err.Error() + ": " + e.Field + " " + e.Value + ": want " + e.Want
}

// Unwrap returns ErrInvalidOption, ErrInvalidCount or ErrNever.
func (e *InputError) Unwrap() error { return e.Err }

// DeadlineError is returned at once, and nothing is taken, when the context's deadline would pass before the wait ends.
// It is both [ErrDeadline] and [context.DeadlineExceeded] to [errors.Is].
type DeadlineError struct {
	// Wait is how long the wait would have been.
	Wait time.Duration
	// Left is how much time the context had left.
	Left time.Duration
}

func (e *DeadlineError) Error() string {
	return fmt.Sprintf("%v: it is %v away and the context has %v left", ErrDeadline, e.Wait, e.Left)
}

// Is reports whether target is ErrDeadline or context.DeadlineExceeded.
func (e *DeadlineError) Is(target error) bool {
	return target == ErrDeadline || target == context.DeadlineExceeded
}

func badOption(field, value, want string) error {
	return &InputError{Err: ErrInvalidOption, Field: field, Value: value, Want: want}
}

func badCount(n int64) error {
	return &InputError{Err: ErrInvalidCount, Field: "n", Value: decimal(n), Want: "1 or more"}
}

func never(n int64, want string) error {
	return &InputError{Err: ErrNever, Field: "n", Value: decimal(n), Want: want}
}

// tooLong is the error of a count that could only be paid off, or of a period that would only come, after the end of time.
func tooLong(n int64) error {
	return never(n, "so few that, with those in line, they are paid off within 73 years")
}

// gaveUp is the error of a wait that ctx ended. It keeps both what the context says and why.
func gaveUp(ctx context.Context, n int64) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return fmt.Errorf("wait for %d: %w", n, err)
	}
	return fmt.Errorf("wait for %d: %w: %w", n, err, cause)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
