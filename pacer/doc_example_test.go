package pacer_test

import (
	"context"

	"github.com/headgate/headgate/pacer"
)

// packageExample is the example of the package comment.
func packageExample(ctx context.Context, send func() error) error {
	calls, err := pacer.NewBursty(pacer.BurstyOptions{Rate: pacer.PerSecond(10)})
	if err != nil {
		return err
	}
	if _, err := calls.Acquire(ctx, 1); err != nil { // waits
		return err
	}
	return send()
}

var _ = packageExample
