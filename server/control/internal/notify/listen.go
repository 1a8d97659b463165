package notify

import (
	"context"
	"math/rand/v2"
	"time"
)

// The first and the longest pause of Listen between two calls. After a call of more than retryMax, the pause starts at
// retryMin again.
const (
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// Listen calls receive until ctx ends. When receive returns, Listen passes the error to onError and calls receive again
// after a pause.
func Listen(ctx context.Context, receive func(context.Context) error, onError func(error)) {
	wait := retryMin
	for ctx.Err() == nil {
		started := time.Now()
		err := receive(ctx)
		if ctx.Err() != nil {
			return
		}
		onError(err)
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
