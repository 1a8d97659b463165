package headgate

import (
	"context"
	"fmt"
	"strconv"
)

// Settle corrects an estimated cost when the true cost is known: it changes the r.Units that were taken with the
// receipt r to used units. If used is more, Settle charges the difference, even beyond the limit. If used is less, it
// gives the difference back. c is the check that was taken; its cost is ignored. For concurrency limits Settle returns
// ErrUnsupported: use Give.
//
// Call Settle once for each receipt, even if nothing was used. Cancellation of ctx is ignored, because the request has
// often ended by then; Settle has its own timeout of one second. As with Charge, the debt of a key never exceeds
// MaxDebt times its capacity.
func Settle(ctx context.Context, l Limiter, c Check, r Receipt, used int64) error {
	switch {
	case ctx == nil:
		return ErrNilContext
	case c.Limit.Algorithm == Concurrency:
		return fmt.Errorf("settle %s: %w", quote(c.Key), ErrUnsupported)
	case r.Units < 1:
		err := badCheck("Receipt", "without units", "the receipt of an allowed check")
		return fmt.Errorf("settle %s: %w", quote(c.Key), err)
	case used < 0:
		return fmt.Errorf("settle %s: %w", quote(c.Key), badCheck("used", strconv.FormatInt(used, 10), "0 or more"))
	}
	ctx, cancel := detach(ctx)
	defer cancel()
	var err error
	switch {
	case used > r.Units:
		c.Cost = min(used-r.Units, MaxCount)
		_, err = l.Charge(ctx, c)
	case used < r.Units:
		c.Cost = r.Units - used
		err = l.Give(ctx, c, r)
	}
	if err != nil {
		return fmt.Errorf("settle %s: %w", quote(c.Key), err)
	}
	return nil
}
