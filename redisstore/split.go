package redisstore

import (
	"cmp"
	"context"
	"errors"

	"github.com/headgate/headgate"
)

// A key that is too hot for one server is split into parts in different slots. Each part has a share of the limit, and
// the shares add up to the limit. A request takes from a random part whose share is large enough. If that part denies
// or is unreachable, the request tries a second part. So no more than the limit passes, but a request may be denied
// although other parts have units left. Remaining and RetryAfter are estimates. A cost above the largest share never
// passes. Charges are spread over all parts.

// The last bits of the lease in a receipt identify the part from which the units were taken. They are the number of the
// part plus one, or everyPart for a charge.
const (
	partBits  = 7
	partMask  = 1<<partBits - 1
	everyPart = partMask
)

// partsOf returns the number of parts of a key. It may be less than Check.Split, so that each part has at least one
// unit.
func partsOf(c *headgate.Check) int {
	return int(min(int64(c.Split), c.Limit.Count, c.Limit.Capacity()))
}

// validate validates a check and, if its key is split, the share of each part. The share of a valid limit can be
// invalid, because its burst refills too slowly.
func validate(c *headgate.Check) error {
	if err := c.Validate(); err != nil {
		return err
	}
	return validateShares(c)
}

// validateShares validates the shares of a check whose key is split. It does nothing for other checks.
func validateShares(c *headgate.Check) error {
	if parts := partsOf(c); parts > 1 {
		for _, part := range []int{0, parts - 1} { // the largest and the smallest share
			if err := shareOf(c, parts, part).Limit.Validate(); err != nil {
				return err
			}
		}
	}
	return nil
}

// shareOf returns the check for one part, with that part's share of the limit.
func shareOf(c *headgate.Check, parts, part int) *headgate.Check {
	share := *c
	share.Limit.Count = divide(c.Limit.Count, parts, part)
	if c.Limit.Burst != 0 {
		share.Limit.Burst = divide(c.Limit.Burst, parts, part)
	}
	return &share
}

// divide returns one part's share of n. The shares of all parts add up to n. They differ by at most one, and the first
// parts have the larger shares.
func divide(n int64, parts, part int) int64 {
	share := n / int64(parts)
	if int64(part) < n%int64(parts) {
		share++
	}
	return share
}

// candidateCount returns the number of parts whose capacity is at least the cost. They are the first parts.
func candidateCount(c *headgate.Check, parts int) int {
	capacity := c.Limit.Capacity()
	switch {
	case c.Cost <= divide(capacity, parts, parts-1):
		return parts
	case c.Cost <= divide(capacity, parts, 0):
		return int(capacity % int64(parts))
	default:
		return 0
	}
}

// takeSplit takes from a random part, or from a second part if the first denies or is unreachable.
func (s *Store) takeSplit(
	ctx context.Context, keys *keyMaker, c *headgate.Check, parts int,
) (headgate.Decision, priorState, error) {
	candidates := cmp.Or(candidateCount(c, parts), parts) // any part returns the denial of a cost that never passes
	part := int(s.rand(int64(candidates)))
	d, before, err := s.takePart(ctx, keys, c, parts, part)
	unreachable := errors.Is(err, ErrUnreachable) // nothing was taken from the part
	final := err != nil && !unreachable || d.Allowed || d.RetryAfter == headgate.Never
	if final || candidates < 2 {
		return d, before, err
	}
	otherPart := (part + 1 + int(s.rand(int64(candidates-1)))) % candidates
	other, beforeOther, otherErr := s.takePart(ctx, keys, c, parts, otherPart)
	switch {
	case otherErr == nil && other.Allowed:
		return other, beforeOther, nil
	case unreachable: // a denial by the other part would hide the error
		return d, before, err
	case otherErr != nil || other.RetryAfter < d.RetryAfter:
		return other, beforeOther, otherErr
	}
	return d, before, nil
}

// takePart takes from one part of a split key. It returns a decision about the whole key.
func (s *Store) takePart(
	ctx context.Context, keys *keyMaker, c *headgate.Check, parts, part int,
) (d headgate.Decision, before priorState, err error) {
	r, err := s.newRequest(keys, shareOf(c, parts, part), part)
	if err != nil {
		return d, before, err
	}
	if r.lease != 0 {
		r.lease = r.lease&^partMask | uint64(part+1)
	}
	d, before, err = s.take(ctx, &r)
	if err != nil {
		return d, before, err
	}
	d = extrapolate(c, parts, d)
	if d.Receipt.Units > 0 {
		d.Receipt.Lease = d.Receipt.Lease&^partMask | uint64(part+1)
	}
	return d, before, nil
}

// extrapolate turns a decision about one part into a decision about the key. It assumes that the same number of units
// remains in every part.
func extrapolate(c *headgate.Check, parts int, d headgate.Decision) headgate.Decision {
	d.Limit = c.Limit.Capacity()
	d.Remaining = min(d.Remaining*int64(parts), d.Limit)
	return d
}

// chargeSplit charges every part its share of the cost.
func (s *Store) chargeSplit(
	ctx context.Context, keys *keyMaker, c *headgate.Check, parts int,
) (headgate.Decision, error) {
	sum := headgate.Decision{Allowed: true, Limit: c.Limit.Capacity(), Receipt: headgate.Receipt{Lease: everyPart}}
	for part := range parts {
		share, op := shareOf(c, parts, part), opCharge
		share.Cost = divide(c.Cost, parts, part)
		if share.Cost == 0 {
			op = opPeek
		}
		d, err := s.chargeOrPeek(ctx, keys, share, part, op)
		if err != nil {
			return headgate.Decision{}, err
		}
		sum.Allowed = sum.Allowed && d.Allowed
		sum.Remaining += d.Remaining
		sum.ResetAfter = max(sum.ResetAfter, d.ResetAfter)
		sum.Receipt.At = max(sum.Receipt.At, d.Receipt.At)
		sum.Receipt.Units += d.Receipt.Units
	}
	return sum, nil
}

// chargeOrPeek charges or peeks at a part of a key, as op says. For a key that is not split, part is unsplit. With
// Options.SecondSecret, it does so under both secrets.
func (s *Store) chargeOrPeek(
	ctx context.Context, keys *keyMaker, c *headgate.Check, part int, op string,
) (headgate.Decision, error) {
	r, err := s.newRequest(keys, c, part)
	if err != nil {
		return headgate.Decision{}, err
	}
	d, _, err := s.chargeOrPeekKey(ctx, &r, op)
	if err != nil || r.secondKey == "" {
		return d, err
	}
	other, _, err := s.chargeOrPeekKey(ctx, r.underSecondSecret(), op)
	return tighter(d, other), err
}

func (s *Store) chargeOrPeekKey(
	ctx context.Context, r *request, op string,
) (d headgate.Decision, before priorState, err error) {
	now, _, packed, err := s.runStep(ctx, op, r)
	if err != nil {
		return d, before, err
	}
	if op == opPeek {
		d, err = r.decide(now, packed, false)
	} else {
		d, err = r.decideCharge(now, packed)
	}
	return d, r.priorState(now, packed), s.explainReply(err, r.key)
}

// giveSplit gives units back to the part in the receipt, or to all parts. If the part no longer exists, because the
// check now has fewer parts, giveSplit does nothing.
func (s *Store) giveSplit(
	ctx context.Context, keys *keyMaker, c *headgate.Check, receipt headgate.Receipt, parts int,
) error {
	number := int(receipt.Lease & partMask)
	if number != everyPart {
		if number == 0 || number > parts {
			return nil
		}
		return s.givePart(ctx, keys, shareOf(c, parts, number-1), receipt, number-1)
	}
	for part := range parts {
		share := shareOf(c, parts, part)
		share.Cost = divide(c.Cost, parts, part)
		if share.Cost == 0 { // the shares of later parts are zero as well
			break
		}
		if err := s.givePart(ctx, keys, share, receipt, part); err != nil {
			return err
		}
	}
	return nil
}
