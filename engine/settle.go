package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/headgate/headgate"
)

// Settle ends a request that was served. For every rule whose cost a response header says, what it says beyond the
// estimate is charged to the rule's limits, and what is less is given back; if the response has no such header, or it says
// no number, the estimate stands. Places under concurrency limits are released. What ctx has come to does not matter: this
// must be done all the same, and a store that is asked over a network has a second for it.
//
// response returns a header or trailer of the response, or "". It may be nil if ReadsResponse is false. A verdict is
// settled once; after that, after a Cancel and after a denial it does nothing.
//
// The error says what could not be charged or given back; there is nothing left to try.
func (v *Verdict) Settle(ctx context.Context, response func(name string) string) error {
	return v.finish(ctx, response, false)
}

// SettleCut is Settle for a request whose response was cut short: its client has hung up, say. A rule whose cost the
// response has not said by then charges its Cost.Max, as clients could otherwise have for the estimate what costs more.
func (v *Verdict) SettleCut(ctx context.Context, response func(name string) string) error {
	return v.finish(ctx, response, true)
}

func (v *Verdict) finish(ctx context.Context, response func(name string) string, cut bool) error {
	if !v.ends() || !v.settles {
		return nil
	}
	ctx, end := v.afterwards(ctx, 0, len(v.checks))
	defer end()
	var errs []error
	for from, to := 0, 0; from < len(v.checks); from = to {
		to = v.ruleEnd(from)
		cost := &v.rule(from).Cost
		said, settles := int64(0), false
		if v.reads && cost.ResponseHeader != "" && response != nil {
			said, settles = cost.Settle(response(cost.ResponseHeader))
			if cut && !settles {
				said, settles = v.most(from, to), true
			}
		}
		for i := from; i < to; i++ {
			var err error
			switch {
			case v.decisions[i].Receipt.Units == 0: // nothing was taken
			case v.checks[i].Limit.Algorithm == headgate.Concurrency:
				err = v.giveBack(ctx, i)
			case settles:
				err = v.settle(ctx, i, said)
			}
			if err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// most returns what a request takes under the rule of some checks if its response could not say its cost.
func (v *Verdict) most(from, to int) int64 {
	if most := v.rule(from).Cost.Max; most > 0 {
		return most
	}
	least := v.limit(&v.asked[from]).Capacity()
	for i := from + 1; i < to; i++ {
		least = min(least, v.limit(&v.asked[i]).Capacity())
	}
	return least
}

// settle charges or gives back the difference between what a request has cost and what was taken for it.
func (v *Verdict) settle(ctx context.Context, i int, said int64) error {
	taken := v.decisions[i].Receipt.Units
	switch {
	case said < taken:
		return v.give(ctx, i, taken-said)
	case said > taken:
		return v.charge(ctx, i, said-taken)
	default:
		return nil
	}
}

// charge takes units of a check's limit whether or not there are any.
func (v *Verdict) charge(ctx context.Context, i int, units int64) error {
	c, a := v.checks[i], &v.asked[i]
	c.Cost = units
	if a.extended > 0 {
		c.Limit = v.limit(a).Limit // which bounds the debt
	}
	if _, err := v.engine.stores.list[a.store].Charge(ctx, c); err != nil {
		return fmt.Errorf("engine: charge %d units to rule %s: %w", units, v.rule(i).ID, err)
	}
	return nil
}

// Cancel ends a request that was not served, and gives back what was taken for it. What shadow rules have counted stays,
// but for places under concurrency limits. What ctx has come to does not matter. After a Settle, another Cancel or a denial
// it does nothing.
//
// The error says what could not be given back; there is nothing left to try.
func (v *Verdict) Cancel(ctx context.Context) error {
	if !v.ends() {
		return nil
	}
	ctx, end := v.afterwards(ctx, 0, len(v.checks))
	defer end()
	var errs []error
	for i := range v.checks {
		if i >= v.binding && v.checks[i].Limit.Algorithm != headgate.Concurrency {
			continue
		}
		if err := v.giveBack(ctx, i); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ends ends the request, and tells whether that is news.
func (v *Verdict) ends() bool {
	if v.waits {
		v.leave()
	}
	v.stopKeeping()
	held := v.holds
	v.holds = false
	return held
}
