package pacer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate"
)

// Errors that callers distinguish with [errors.Is]. None of them changes any state.
var (
	// ErrInvalidOption is wrapped by every error about an option or a rate, and is an [*InputError].
	ErrInvalidOption = errors.New("invalid option")
	// ErrInvalidCount is wrapped if a count is less than 1, and is an [*InputError]. It is headgate.ErrInvalidCheck.
	ErrInvalidCount = headgate.ErrInvalidCheck
	// ErrNever is wrapped if a count can never pass, and is an [*InputError]: it is above the pacer's capacity, or it
	// takes more than 73 years together with the waiting callers. In the second case it may pass when fewer callers
	// wait. Waiting callers also get it if a new rate makes their wait that long. It is headgate.ErrNever.
	ErrNever = headgate.ErrNever
	// ErrNilContext is returned when ctx is nil. It is headgate.ErrNilContext.
	ErrNilContext = headgate.ErrNilContext
	// ErrNilJob is returned by [Queue.Submit] without a function.
	ErrNilJob = errors.New("nil job: pass a function, or use Acquire")
	// ErrDeadline is wrapped by a [*DeadlineError]: the context's deadline comes before the caller's time.
	ErrDeadline = errors.New("deadline is before the end of the wait")
	// ErrQueueFull is wrapped if an item does not fit into a [Queue].
	ErrQueueFull = errors.New("queue is full")
	// ErrTooManyReservations is wrapped when a pacer has [MaxReservations] outstanding.
	ErrTooManyReservations = errors.New("too many reservations")
	// ErrJobExited is the result of a job that ended its goroutine with [runtime.Goexit] instead of returning.
	ErrJobExited = errors.New("job ended its goroutine instead of returning")
	// ErrClosed is returned by a closed [Queue] or [TokenQueue], also to callers that were waiting. It is
	// headgate.ErrClosed.
	ErrClosed = headgate.ErrClosed
	// ErrUninitialized is returned by the methods of a pacer that was not created by its New function.
	ErrUninitialized = errors.New("uninitialized pacer: create it with its New function")
)

// An InputError describes an invalid option or count. It is that of package headgate.
type InputError = headgate.InputError

// DeadlineError is returned at once, and nothing is taken, if the context's deadline comes before the end of the wait.
// [errors.Is] reports that it is both [ErrDeadline] and [context.DeadlineExceeded].
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
