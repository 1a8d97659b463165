package guard

import (
	"context"
	"errors"

	"github.com/headgate/headgate"
)

// ErrUnavailable is wrapped by the errors of what could not be done because the store did not answer.
var ErrUnavailable = errors.New("the store cannot be asked")

// An Error says what could not be done, where and why. It wraps ErrUnavailable and Err.
type Error struct {
	// Op is what was asked for: "take", "renew", "give", "reset" or "grant".
	Op string
	// Shard is who did not answer, empty if the store has but one.
	Shard string
	// Err is what the store answered: now, or when the circuit opened.
	Err error
	// Sent tells that the store may have done it all the same: it was asked, and its answer is missing.
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

// A verdict says what came of a call.
type verdict uint8

const (
	answered verdict = iota // the store works, and its answer stands, be it an error
	refused                 // the store works, but has no answer
	failed                  // the store does not work
	ended                   // the caller did not wait for the answer
	starved                 // this process was too busy to send the call or to read the answer
)

// faults are errors that say nothing bad about the store: they are the caller's, or the store has too much to do.
var faults = [...]error{
	headgate.ErrInvalidLimit, headgate.ErrInvalidCheck, headgate.ErrUnsupported, headgate.ErrNilContext,
	headgate.ErrNever, headgate.ErrClosed, headgate.ErrOverloaded,
}

// judge says what came of a call that the caller made with ctx. An error with a method Answered() bool that returns true
// is an answer. One with a method Refused() bool that does is that of a store which works and cannot decide this check.
func judge(ctx context.Context, err error) verdict {
	if err == nil {
		return answered
	}
	for _, fault := range faults {
		if errors.Is(err, fault) {
			return answered
		}
	}
	var input *headgate.InputError
	var answer interface{ Answered() bool }
	var refusal interface{ Refused() bool }
	switch {
	case errors.As(err, &input), errors.As(err, &answer) && answer.Answered():
		return answered
	case ctx.Err() != nil:
		return ended
	case errors.Is(err, headgate.ErrFull), errors.As(err, &refusal) && refusal.Refused():
		return refused
	default:
		return failed
	}
}
