package pacer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/pacer"
)

// The errors are those of package headgate, so that a program checks for one of each.
func TestErrorsAreThoseOfHeadgate(t *testing.T) {
	q, err := pacer.NewTokenQueue(pacer.TokenQueueOptions{Rate: pacer.PerMinute(1), Capacity: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var none context.Context
	_, never := q.Acquire(ctx, 2)
	_, noCount := q.Acquire(ctx, 0)
	_, noContext := q.Acquire(none, 1)
	q.Close()
	q.Close()
	_, closed := q.Acquire(ctx, 1)
	for _, tt := range []struct{ got, want error }{
		{never, headgate.ErrNever},
		{noCount, headgate.ErrInvalidCheck},
		{noContext, headgate.ErrNilContext},
		{closed, headgate.ErrClosed},
	} {
		if !errors.Is(tt.got, tt.want) {
			t.Errorf("got %v, want %v", tt.got, tt.want)
		}
	}
	_, option := pacer.NewBursty(pacer.BurstyOptions{})
	for _, err := range []error{never, noCount, option} {
		var input *headgate.InputError
		if !errors.As(err, &input) {
			t.Errorf("got %v, want a headgate.InputError", err)
		}
	}
}
