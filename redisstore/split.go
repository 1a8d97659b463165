package redisstore

import (
	"cmp"
	"context"
	"errors"

	"github.com/headgate/headgate"
)

// A key that is too hot for one server is split into parts in different slots. Each part has a share of the limit, and
// the shares add up to the limit. A request takes from a random part whose share is large enough, and from a second one
// if the first denies or is unreachable. So no more than the limit passes, but a request may be denied although other
// parts have units left. Remaining and RetryAfter are estimates. A cost above the largest share never passes. Charges
// are spread over all parts.

// The last bits of the lease in a receipt are the part that it is of: its number plus one, or everyPart.
const (
	partBits  = 7
	partMask  = 1<<partBits - 1
	everyPart = partMask
)

// partsOf returns the number of parts of a key, at most so many that each has a share.
func partsOf(c *headgate.Check) int {
	return int(min(int64(c.Split), c.Limit.Count, c.Limit.Capacity()))
}

// validate checks a check, and its shares if the key is split: a share may be so small that its burst refills too
// slowly.
func validate(c *headgate.Check) error {
	if err := c.Validate(); err != nil {
		return err
	}
	return validateShares(c)
}

// validateShares checks the shares of a check whose key is split.
func validateShares(c *headgate.Check) error {
	if parts := partsOf(c); parts > 1 {
		for _, part := range []int{0, parts - 1} {
			if err := shareOf(c, parts, part).Limit.Validate(); err != nil {
				return err
			}
		}
	}
	return nil
}

// shareOf returns the check of one part.
func shareOf(c *headgate.Check, parts, part int) *headgate.Check {
	share := *c
	share.Limit.Count = divide(c.Limit.Count, parts, part)
	if c.Limit.Burst != 0 {
		share.Limit.Burst = divide(c.Limit.Burst, parts, part)
	}
	return &share
}

// divide returns the share of n of one part. Shares add up to n and differ by at most one, the larger ones first.
func divide(n int64, parts, part int) int64 {
	share := n / int64(parts)
	if int64(part) < n%int64(parts) {
		share++
	}
	return share
}

// candidateCount returns how many parts, from the first on, have a share of at least the cost.
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

// takeSplit takes from one part, or from a second one.
func (s *Store) takeSplit(
	ctx context.Context, keys *keyMaker, c *headgate.Check, parts int,
) (headgate.Decision, foundState, error) {
	choices := cmp.Or(candidateCount(c, parts), parts) // any part returns the denial
	first := int(s.rand(int64(choices)))
	d, before, err := s.takePart(ctx, keys, c, parts, first)
	unreachable := errors.Is(err, ErrUnreachable) // so nothing was taken there
	final := err != nil && !unreachable || d.Allowed || d.RetryAfter == headgate.Never
	if final || choices < 2 {
		return d, before, err
	}
	second := (first + 1 + int(s.rand(int64(choices-1)))) % choices
	secondTake, beforeOther, otherErr := s.takePart(ctx, keys, c, parts, second)
	switch {
	case otherErr == nil && secondTake.Allowed:
		return secondTake, beforeOther, nil
	case unreachable: // a denial by the other part would hide it
		return d, before, err
	case otherErr != nil || secondTake.RetryAfter < d.RetryAfter:
		return secondTake, beforeOther, otherErr
	}
	return d, before, nil
}

func (s *Store) takePart(
	ctx context.Context, keys *keyMaker, c *headgate.Check, parts, part int,
) (d headgate.Decision, before foundState, err error) {
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

// extrapolate turns a decision about one part into one about the key, assuming that the other parts have as many units
// left.
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
		if share.Cost = divide(c.Cost, parts, part); share.Cost == 0 {
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

// chargeOrPeek charges or peeks at a part, according to op.
func (s *Store) chargeOrPeek(
	ctx context.Context, keys *keyMaker, c *headgate.Check, part int, op string,
) (headgate.Decision, error) {
	r, err := s.newRequest(keys, c, part)
	if err != nil {
		return headgate.Decision{}, err
	}
	d, _, err := s.chargeOrPeekKey(ctx, &r, op)
	if err != nil || r.second == "" {
		return d, err
	}
	other, _, err := s.chargeOrPeekKey(ctx, r.underSecond(), op)
	return tighter(d, other), err
}

func (s *Store) chargeOrPeekKey(
	ctx context.Context, r *request, op string,
) (d headgate.Decision, before foundState, err error) {
	now, _, packed, err := s.runStep(ctx, op, r)
	if err != nil {
		return d, before, err
	}
	if op == opPeek {
		d, err = r.decide(now, packed, false)
	} else {
		d, err = r.decideCharge(now, packed)
	}
	return d, r.found(now, packed), s.explainReply(err, r.key)
}

// giveSplit gives back to the part of the receipt, or to all parts. A part that does not exist any more gets nothing.
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
		if share.Cost = divide(c.Cost, parts, part); share.Cost == 0 {
			break
		}
		if err := s.givePart(ctx, keys, share, receipt, part); err != nil {
			return err
		}
	}
	return nil
}
