package pacer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate"
)

// Errors to compare with [errors.Is]. A call that returns one of them has taken nothing.
var (
	// ErrInvalidOption is wrapped by every [*InputError] about an option or a rate.
	ErrInvalidOption = errors.New("invalid option")
	// ErrInvalidCount is wrapped by every [*InputError] about a count below 1. It is headgate.ErrInvalidCheck.
	ErrInvalidCount = headgate.ErrInvalidCheck
	// ErrNever is wrapped by every [*InputError] about a count that can never pass, because it is above the pacer's
	// capacity or would pass only after 73 years. In the second case it may pass later, when fewer callers wait. Waiting
	// callers get this error, too, if a new rate makes their wait that long. It is headgate.ErrNever.
	ErrNever = headgate.ErrNever
	// ErrNilContext is returned when ctx is nil. It is headgate.ErrNilContext.
	ErrNilContext = headgate.ErrNilContext
	// ErrNilJob is returned by [Queue.Submit] without a function.
	ErrNilJob = errors.New("nil job: pass a function, or use Acquire")
	// ErrDeadline is wrapped by a [*DeadlineError]: the context's deadline comes before the caller's time.
	ErrDeadline = errors.New("deadline is before the end of the wait")
	// ErrQueueFull is wrapped if a [Queue] has no room for an item.
	ErrQueueFull = errors.New("queue is full")
	// ErrTooManyReservations is wrapped if a pacer already has [MaxReservations] outstanding reservations.
	ErrTooManyReservations = errors.New("too many reservations")
	// ErrJobExited is the result of a job that ended its goroutine with [runtime.Goexit] instead of returning.
	ErrJobExited = errors.New("job ended its goroutine instead of returning")
	// ErrClosed is returned by a closed [Queue] or [TokenQueue]. Callers that wait during Close get it, too. It is
	// headgate.ErrClosed.
	ErrClosed = headgate.ErrClosed
	// ErrUninitialized is returned by the methods of a pacer that was not created by its New function.
	ErrUninitialized = errors.New("uninitialized pacer: create it with its New function")
)

// An InputError describes an invalid option or count. It is an alias of the type in package headgate.
type InputError = headgate.InputError

// DeadlineError is returned at once if the context's deadline comes before the end of the wait. [errors.Is] reports
// that it is both [ErrDeadline] and [context.DeadlineExceeded].
type DeadlineError struct {
	// Wait is how long the wait would have been.
	Wait time.Duration
	// Left is the time until the context's deadline.
	Left time.Duration
}

func (e *DeadlineError) Error() string {
	return fmt.Sprintf("%v: the wait is %v and the context has %v left", ErrDeadline, e.Wait, e.Left)
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

func neverError(n int64, want string) error {
	return &InputError{Err: ErrNever, Field: "n", Value: decimal(n), Want: want}
}

// tooLongError is the error for a count that could pass only after farFuture.
func tooLongError(n int64) error {
	return neverError(n, "a count that, after the waiting callers, is paid off within 73 years")
}

// contextError is the error of a wait that ctx ended. It wraps both the context's error and its cause.
func contextError(ctx context.Context, n int64) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return fmt.Errorf("wait for %d: %w", n, err)
	}
	return fmt.Errorf("wait for %d: %w: %w", n, err, cause)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
