// Package bykey has what the functions By of packages httplimit and grpclimit share: a check for one unit, the delay of
// a leaky-bucket, a slot that is renewed until its request ends, and a log of errors.
package bykey

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/internal/renewal"
)

// Exempt returns a Limit that means no limit in functions By. Limiters refuse it.
func Exempt() headgate.Limit { return headgate.Limit{Count: math.MinInt64} }

// ErrLongKey is returned for a key that is too long. Keys are often read from requests, so this is usually an error
// of the client.
var ErrLongKey = errors.New("the client's key is longer than " + strconv.Itoa(headgate.MaxKeyBytes) + " bytes")

// noKey is the key of requests without one, which share a counter.
const noKey = "-"

// giveTimeout limits the time for renewing or giving back units, which happens even if the request was
// canceled.
const giveTimeout = time.Second

// NewCheck returns a check for one unit. It refuses the zero Limit, which may come from a map without an entry
// for a mistyped name.
func NewCheck(key string, limit headgate.Limit) (headgate.Check, error) {
	if len(key) > headgate.MaxKeyBytes {
		return headgate.Check{}, ErrLongKey
	}
	if limit == (headgate.Limit{}) {
		return headgate.Check{}, &headgate.InputError{
			Err: headgate.ErrInvalidLimit, Field: "Count", Value: "0", Want: "at least 1, or Exempt for no limit",
		}
	}
	return headgate.Check{Key: cmp.Or(key, noKey), Limit: limit, Cost: 1}, nil
}

// Wait waits for the Delay of an allowed check and returns true. If ctx ends during the Delay, Wait gives the unit back
// and returns false; if the deadline of ctx is too early, it does so at once. The error is that of giving back.
func Wait(ctx context.Context, l headgate.Limiter, c headgate.Check, d headgate.Decision) (waited bool, err error) {
	if d.Delay <= 0 {
		return true, nil
	}
	deadline, ok := ctx.Deadline()
	tooEarly := ok && time.Until(deadline) < d.Delay
	if !tooEarly && clock.Sleep(ctx, clock.System, d.Delay) == nil {
		return true, nil
	}
	if d.Receipt.Units <= 0 {
		return false, nil
	}
	return false, give(ctx, l, c, d.Receipt.Delayed(d.Delay))
}

// HoldsSlot reports whether an allowed check holds a slot of a concurrency limit.
func HoldsSlot(c headgate.Check, d headgate.Decision) bool {
	return c.Limit.Algorithm == headgate.Concurrency && d.Receipt.Units > 0
}

// Hold renews a slot until release is called, which must happen once. The slot outlives ctx.
func Hold(ctx context.Context, l headgate.Limiter, c headgate.Check, slot headgate.Receipt) (release func() error) {
	r := new(renewal.Renewal)
	r.Start(clock.System, cmp.Or(c.Limit.TTL, headgate.DefaultTTL), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveTimeout)
		defer cancel()
		_, _ = l.Renew(ctx, c, slot) // after a failure the next renewal takes the slot again
	})
	return func() error {
		r.Stop()
		return give(ctx, l, c, slot)
	}
}

// LogErrors returns a function that logs errors with slog at level Warn, at most once a second.
func LogErrors() func(context.Context, error) {
	var lastLogged atomic.Int64 // in nanoseconds since 1970
	return func(ctx context.Context, err error) {
		now, last := time.Now().UnixNano(), lastLogged.Load()
		if now-last >= int64(time.Second) && lastLogged.CompareAndSwap(last, now) {
			slog.WarnContext(ctx, "headgate: rate limiter failed; logged at most once a second", "err", err)
		}
	}
}

// give gives units back. It ignores ErrClosed, because a closed limiter has forgotten the units.
func give(ctx context.Context, l headgate.Limiter, c headgate.Check, r headgate.Receipt) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveTimeout)
	defer cancel()
	c.Cost = r.Units
	if err := l.Give(ctx, c, r); !errors.Is(err, headgate.ErrClosed) {
		return err
	}
	return nil
}
