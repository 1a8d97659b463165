package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/headgate/headgate"
)

// Settle ends a request that was served. For every rule with a cost in a response header, it charges or refunds the
// difference between this cost and the estimate. If the response lacks the header, or its value is not a number, the
// estimate is the cost. Slots of concurrency limits are released. Settle works even if ctx has ended; a remote store
// has one second to settle the request.
//
// response returns a header or trailer of the response, or "". It may be nil if ReadsResponse is false. After a denial,
// a Cancel or another Settle, Settle does nothing.
//
// The error lists the charges and refunds that failed. Calling Settle again does not retry them.
func (v *Verdict) Settle(ctx context.Context, response func(name string) string) error {
	return v.settleAll(ctx, response, false)
}

// SettleIncomplete is like Settle, but for a request whose response is incomplete, for example because its client has
// disconnected. If the response has not stated its cost, SettleIncomplete charges the rule's Cost.Max. Otherwise
// clients could get expensive responses for the price of the estimate.
func (v *Verdict) SettleIncomplete(ctx context.Context, response func(name string) string) error {
	return v.settleAll(ctx, response, true)
}

// settleAll implements Settle and SettleIncomplete.
func (v *Verdict) settleAll(ctx context.Context, response func(name string) string, incomplete bool) error {
	if !v.finish() || !v.needsSettle {
		return nil
	}
	ctx, cancel := v.cleanupContext(ctx, 0, len(v.checks))
	defer cancel()
	var errs []error
	for from, to := 0, 0; from < len(v.checks); from = to {
		to = v.ruleEnd(from)
		cost := &v.rule(from).Cost
		units, known := int64(0), false // the true cost, if it differs from the estimate
		if v.readsResponse && cost.ResponseHeader != "" && response != nil {
			units, known = cost.FromResponse(response(cost.ResponseHeader))
			if incomplete && !known {
				units, known = v.maxCost(from, to), true
			}
		}
		for i := from; i < to; i++ {
			var err error
			switch {
			case v.decisions[i].Receipt.Units == 0: // nothing was taken
			case v.checks[i].Limit.Algorithm == headgate.Concurrency:
				err = v.refundAll(ctx, i)
			case known:
				err = v.settle(ctx, i, units)
			}
			if err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// maxCost returns the cost of a request whose response ended before it stated its cost. It is the Cost.Max of the rule
// whose checks are from:to or, without one, the smallest capacity of its limits.
func (v *Verdict) maxCost(from, to int) int64 {
	if maximum := v.rule(from).Cost.Max; maximum > 0 {
		return maximum
	}
	smallest := v.limit(&v.infos[from]).Capacity()
	for i := from + 1; i < to; i++ {
		smallest = min(smallest, v.limit(&v.infos[i]).Capacity())
	}
	return smallest
}

// settle charges or refunds the difference between the cost of a request and the units taken for it.
func (v *Verdict) settle(ctx context.Context, i int, cost int64) error {
	taken := v.decisions[i].Receipt.Units
	switch {
	case cost < taken:
		return v.refund(ctx, i, taken-cost)
	case cost > taken:
		return v.charge(ctx, i, cost-taken)
	default:
		return nil
	}
}

// charge takes units for a check, even beyond its limit.
func (v *Verdict) charge(ctx context.Context, i int, units int64) error {
	c, info := v.checks[i], &v.infos[i]
	c.Cost = units
	if info.extraCapacity > 0 {
		c.Limit = v.limit(info).Limit // the debt is bounded by the rule's own capacity, not by the extended one
	}
	if _, err := v.store(i).Charge(ctx, c); err != nil {
		return fmt.Errorf("engine: charge %d units to rule %s: %w", units, v.rule(i).ID, err)
	}
	return nil
}

// Cancel ends a request that was not served, and refunds the units that were taken for it. Units of shadow rules are
// not refunded, but their slots are released. Cancel works even if ctx has ended. After a denial, a Settle or another
// Cancel, Cancel does nothing.
//
// The error lists the refunds that failed. Calling Cancel again does not retry them.
func (v *Verdict) Cancel(ctx context.Context) error {
	if !v.finish() {
		return nil
	}
	ctx, cancel := v.cleanupContext(ctx, 0, len(v.checks))
	defer cancel()
	var errs []error
	for i := range v.checks {
		if i >= v.enforcedCount && v.checks[i].Limit.Algorithm != headgate.Concurrency {
			continue
		}
		if err := v.refundAll(ctx, i); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// finish ends the request, and reports whether it held units or slots.
func (v *Verdict) finish() bool {
	if v.isDelayed {
		v.stopWaiting()
	}
	v.stopRenewal()
	heldUnits := v.holdsUnits
	v.holdsUnits = false
	return heldUnits
}
