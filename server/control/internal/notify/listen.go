package notify

import (
	"context"
	"math/rand/v2"
	"time"
)

// The pauses of Listen between calls. A call that lasted longer than retryMax resets the pause.
const (
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// Listen calls receive until ctx ends. Whenever receive returns, Listen passes its error to failed and calls it again
// after a pause.
func Listen(ctx context.Context, receive func(context.Context) error, failed func(error)) {
	wait := retryMin
	for ctx.Err() == nil {
		started := time.Now()
		err := receive(ctx)
		if ctx.Err() != nil {
			return
		}
		failed(err)
		if time.Since(started) > retryMax {
			wait = retryMin
		}
		timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		wait = min(2*wait, retryMax)
	}
}
