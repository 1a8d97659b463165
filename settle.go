package headgate

import (
	"context"
	"fmt"
	"strconv"
)

// Settle corrects an estimate when the true cost is known: it replaces the units that were taken with the receipt r by
// used units. More units are charged, even beyond the limit; fewer are given back. c is the check that was taken; its
// cost is ignored. For concurrency limits it returns ErrUnsupported: use Give.
//
// Call it once for each receipt, also if nothing was used. The end of ctx does not stop it, because the request has
// often ended by then: it has a second of its own. As with Charge, a key never owes more than MaxDebt times its
// capacity, whatever was used.
func Settle(ctx context.Context, l Limiter, c Check, r Receipt, used int64) error {
	switch {
	case ctx == nil:
		return ErrNilContext
	case c.Limit.Algorithm == Concurrency:
		return fmt.Errorf("settle %s: %w", quote(c.Key), ErrUnsupported)
	case r.Units < 1:
		return fmt.Errorf("settle %s: %w", quote(c.Key), badCheck("Receipt", "of no units", "that of an allowed check"))
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
