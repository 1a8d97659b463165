package headgate

import "context"

// A Limiter decides checks. It is safe for concurrent use. Most callers want Take.
//
// A denial is a Decision; an error means that something broke or that the check was wrong. Neither takes anything.
type Limiter interface {
	// Take decides one check and, if it is allowed, takes its cost. A cost of 0 only looks.
	Take(ctx context.Context, c Check) (Decision, error)

	// TakeAll decides several checks as one: the units of all are taken, or of none. It appends one decision a check to
	// dst, in order, and returns it; the request is allowed if [Allowed] says so, and [Tightest] is what to report. When
	// one is denied nothing is taken, and the decisions that would have allowed say so with what remains untouched, and
	// without a receipt. A key may stand in it once, and it takes at most MaxChecks.
	//
	// A limiter whose keys are on several servers decides owner by owner, in the order in which they first occur: one is
	// asked only if all before allow, and what these took is given back if he denies. The decision of a check that was
	// not asked says nothing but Allowed: its Limit is 0.
	TakeAll(ctx context.Context, checks []Check, dst []Decision) ([]Decision, error)

	// Charge takes the cost whether or not it is within the limit, to settle what is known only afterwards. What goes
	// beyond the limit is a debt that time repays; it is cut at MaxDebt times the capacity. Concurrency limits have no
	// Charge: ErrUnsupported.
	Charge(ctx context.Context, c Check) (Decision, error)

	// Renew keeps the slot of a concurrency limit that was taken with the receipt r for another TTL from now on, as its holder
	// is still there. c.Cost is how many units it has. A slot that has expired, or that the limiter has lost, is taken again
	// if there is room for it. It reports whether the slot is held: if not, the limiter does not count its holder, and the
	// holder may try again later. Do not call it while the slot is given back, or afterwards. Limits of other algorithms have
	// no Renew: ErrUnsupported.
	Renew(ctx context.Context, c Check, r Receipt) (held bool, err error)

	// Give returns c.Cost of the units that were taken with the receipt r, or releases the slot of a concurrency limit.
	// c.Limit is the limit that they were taken under, even if the key has another one by now. Give never adds more than
	// time has left to give back: units whose window has rolled or whose bucket has refilled add nothing. Give each unit
	// back once.
	Give(ctx context.Context, c Check, r Receipt) error

	// Reset forgets what was consumed under the check's key, whatever the algorithm. Its limit and cost are not read.
	Reset(ctx context.Context, c Check) error
}
