package pulse

import (
	"context"
	"math/rand/v2"
	"time"
)

// How long Listen waits before it hears again. What was heard for as long as the last is taken to be well.
const (
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// Listen hears what a server says until ctx ends: whenever hear returns, it is told to failed, and hear is called again after a
// while.
func Listen(ctx context.Context, hear func(context.Context) error, failed func(error)) {
	wait := retryMin
	for ctx.Err() == nil {
		started := time.Now()
		err := hear(ctx)
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
