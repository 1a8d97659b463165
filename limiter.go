package headgate

import "context"

// A Limiter decides checks. It is safe for concurrent use. Most callers want Take.
//
// A denial is a Decision. An error means that something broke or that the check was invalid. Denials and errors take
// nothing, with two exceptions: units may have been taken after ErrOverloaded, or if a server responded too late.
type Limiter interface {
	// Take decides one check and, if it is allowed, takes its cost, which is at least 1.
	Take(ctx context.Context, c Check) (Decision, error)

	// Peek takes nothing. Its decision has the Allowed, RetryAfter and Delay that Take would return now, and the Remaining
	// and ResetAfter of a cost of 0. The cost may be 0, which is denied only if the key is in debt.
	Peek(ctx context.Context, c Check) (Decision, error)

	// TakeAll takes the units of all checks or of none. It appends one decision for each check to dst, in order, and
	// returns dst. [Allowed] reports whether the request is allowed, and [Tightest] returns the decision to report. If one
	// check is denied, nothing is taken. The decisions of the other checks stay Allowed, but have no receipt, and their
	// Remaining is the number before the call. There may be at most MaxChecks checks, and each key may occur once.
	//
	// A limiter whose keys are on several servers decides the checks owner by owner, in the order in which the owners
	// first occur. It stops at the first owner with a denial and gives back the units of earlier owners. In the decisions
	// of later owners, only Allowed is set.
	TakeAll(ctx context.Context, checks []Check, dst []Decision) ([]Decision, error)

	// Charge takes the cost whether or not it is within the limit, for a cost that is known only after the request. Units
	// beyond the limit are a debt, at most MaxDebt times the capacity, which decreases with time. For concurrency limits
	// it returns ErrUnsupported.
	Charge(ctx context.Context, c Check) (Decision, error)

	// Renew extends a slot of a concurrency limit by one TTL from now. r is the receipt of the slot, and c.Cost the number
	// of its units. A slot that has expired, or that the limiter has lost, is taken again if there is room. held reports
	// whether the caller holds the slot now. If not, the limiter does not count the caller, which may call Renew again
	// later. Renew must not be called during or after the Give of the slot. For other algorithms it returns
	// ErrUnsupported.
	Renew(ctx context.Context, c Check, r Receipt) (held bool, err error)

	// Give gives back c.Cost of the units that were taken with the receipt r, or releases the slot of a concurrency limit.
	// c.Limit is the limit under which the units were taken, even if the key's limit has changed. Giving back units that
	// have drained since, or whose window has ended, has no effect. Give each unit back once.
	Give(ctx context.Context, c Check, r Receipt) error

	// Reset clears the consumption of the check's key, whatever the algorithm. The check's limit and cost are ignored.
	Reset(ctx context.Context, c Check) error
}
