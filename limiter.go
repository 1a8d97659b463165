package headgate

import "context"

// A Limiter decides checks. It is safe for concurrent use. Most callers want Take.
//
// A denial is a Decision; an error means that something broke or that the check was invalid. Neither takes anything,
// except that after ErrOverloaded, or when a server does not respond in time, units may have been taken.
type Limiter interface {
	// Take decides one check and, if it is allowed, takes its cost, which is at least 1.
	Take(ctx context.Context, c Check) (Decision, error)

	// Peek takes nothing. Allowed, RetryAfter and Delay are those that Take would return now; Remaining and ResetAfter
	// describe the key as it is. The cost may be 0, which is denied only if the key is in debt.
	Peek(ctx context.Context, c Check) (Decision, error)

	// TakeAll takes the units of all checks or of none. It appends one decision for each check to dst, in order, and
	// returns it. [Allowed] reports whether the request is allowed, and [Tightest] returns the decision to report. If one
	// check is denied, nothing is taken; the decisions of the others stay Allowed, but have no receipt, and their
	// Remaining is that before the call. Each key may occur once, and there may be at most MaxChecks.
	//
	// A limiter whose keys are on several servers decides owner by owner, in the order in which they first occur. It stops
	// at the first owner with a denial and gives back what the earlier ones took. The decision of a check that was not
	// reached is Allowed with a Limit of 0 and no other figures.
	TakeAll(ctx context.Context, checks []Check, dst []Decision) ([]Decision, error)

	// Charge takes the cost whether or not it is within the limit, for a cost that is known only afterwards. Units beyond
	// the limit are a debt that time repays, of at most MaxDebt times the capacity. For concurrency limits it returns
	// ErrUnsupported.
	Charge(ctx context.Context, c Check) (Decision, error)

	// Renew holds the slot of a concurrency limit that was taken with the receipt r for another TTL from now. c.Cost is
	// the number of its units. A slot that has expired, or that the limiter has lost, is taken again if there is room.
	// Renew reports whether the slot is held: if not, the limiter does not count the holder, which may call Renew again
	// later. Renew must not be called during or after the Give of the slot. For other algorithms it returns
	// ErrUnsupported.
	Renew(ctx context.Context, c Check, r Receipt) (held bool, err error)

	// Give gives back c.Cost of the units that were taken with the receipt r, or releases the slot of a concurrency limit.
	// c.Limit is the limit under which they were taken, even if the key has another one now. Units that have drained
	// since, or whose window has ended, add nothing. Give each unit back once.
	Give(ctx context.Context, c Check, r Receipt) error

	// Reset clears the consumption of the check's key, whatever the algorithm. The check's limit and cost are ignored.
	Reset(ctx context.Context, c Check) error
}
