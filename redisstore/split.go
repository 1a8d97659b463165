package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/headgate/headgate"
)

// A key that is too hot for one server is counted in parts, in different slots, each with a share of the limit; the
// shares sum to the limit. A request asks one part, drawn at random among those whose share is large enough, and a second
// one if that denies or is away. So no more than the limit passes, and a request can be denied although other parts have room. What
// remains and when to come back is an estimate. A cost above the largest share is denied for good. What is charged is
// spread over all parts.

// A receipt for a part of a key says in the last bits of its lease which one: its number and one, or everyPart.
const (
	splitBits = 7
	splitMask = 1<<splitBits - 1
	everyPart = splitMask
)

// partsOf returns in how many parts a key is counted: never so many that one has no share.
func partsOf(c *headgate.Check) int {
	return int(min(int64(c.Split), c.Limit.Count, c.Limit.Capacity()))
}

// validate reports what is wrong with a check, and with its shares if it is split: they may be so small that their burst
// takes too long to refill.
func validate(c *headgate.Check) error {
	if err := c.Validate(); err != nil {
		return err
	}
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
	share.Limit.Count = sliceOf(c.Limit.Count, parts, part)
	if c.Limit.Burst != 0 {
		share.Limit.Burst = sliceOf(c.Limit.Burst, parts, part)
	}
	return &share
}

// sliceOf cuts n so that the slices sum to n and differ by at most one, the larger ones first.
func sliceOf(n int64, parts, part int) int64 {
	slice := n / int64(parts)
	if int64(part) < n%int64(parts) {
		slice++
	}
	return slice
}

// roomy returns how many of the parts, the first ones, have a share that the cost fits.
func roomy(c *headgate.Check, parts int) int {
	capacity := c.Limit.Capacity()
	switch {
	case c.Cost <= sliceOf(capacity, parts, parts-1):
		return parts
	case c.Cost <= sliceOf(capacity, parts, 0):
		return int(capacity % int64(parts))
	default:
		return 0
	}
}

// takeSplit takes from one part, or from a second one.
func (s *Store) takeSplit(
	ctx context.Context, keys *keyMaker, c *headgate.Check, parts int,
) (headgate.Decision, found, error) {
	among := roomy(c, parts)
	if among == 0 {
		among = parts // to say how it is
	}
	first := rand.IntN(among)
	d, before, err := s.takePart(ctx, keys, c, parts, first)
	away := errors.Is(err, ErrAway) // so nothing was taken there
	if err != nil && !away || d.Allowed || err == nil && c.Cost == 0 || d.RetryAfter == headgate.Never || among < 2 {
		return d, before, err
	}
	second := (first + 1 + rand.IntN(among-1)) % among
	other, beforeOther, failed := s.takePart(ctx, keys, c, parts, second)
	switch {
	case failed == nil && other.Allowed:
		return other, beforeOther, nil
	case away: // that one denies is not all there is to say
		return d, before, err
	case failed != nil || other.RetryAfter < d.RetryAfter:
		return other, beforeOther, failed
	}
	return d, before, nil
}

func (s *Store) takePart(
	ctx context.Context, keys *keyMaker, c *headgate.Check, parts, part int,
) (d headgate.Decision, before found, err error) {
	a, err := s.ask(keys, shareOf(c, parts, part), part)
	if err != nil {
		return d, before, err
	}
	if a.lease != 0 {
		a.lease = a.lease&^splitMask | uint64(part+1)
	}
	d, before, err = s.take(ctx, &a)
	if err != nil {
		return d, before, err
	}
	d = ofWhole(c, parts, d)
	if d.Receipt.Units > 0 {
		d.Receipt.Lease = d.Receipt.Lease&^splitMask | uint64(part+1)
	}
	return d, before, nil
}

// ofWhole returns a decision about one part as one about the key. Of what remains one can only guess that the other parts
// are alike.
func ofWhole(c *headgate.Check, parts int, d headgate.Decision) headgate.Decision {
	d.Limit = c.Limit.Capacity()
	d.Remaining = min(d.Remaining*int64(parts), d.Limit)
	return d
}

// chargeSplit charges every part its slice.
func (s *Store) chargeSplit(ctx context.Context, keys *keyMaker, c *headgate.Check, parts int) (headgate.Decision, error) {
	all := headgate.Decision{Allowed: true, Limit: c.Limit.Capacity(), Receipt: headgate.Receipt{Lease: everyPart}}
	for part := range parts {
		share := shareOf(c, parts, part)
		share.Cost = sliceOf(c.Cost, parts, part)
		var d headgate.Decision
		var err error
		if share.Cost == 0 {
			d, err = s.chargeOrLook(ctx, keys, share, part, opLook)
		} else {
			d, err = s.chargeOrLook(ctx, keys, share, part, opCharge)
		}
		if err != nil {
			return headgate.Decision{}, err
		}
		all.Allowed = all.Allowed && d.Allowed
		all.Remaining += d.Remaining
		all.ResetAfter = max(all.ResetAfter, d.ResetAfter)
		all.Receipt.At = max(all.Receipt.At, d.Receipt.At)
		all.Receipt.Units += d.Receipt.Units
	}
	return all, nil
}

func (s *Store) chargeOrLook(ctx context.Context, keys *keyMaker, c *headgate.Check, part int, op string) (headgate.Decision, error) {
	a, err := s.ask(keys, c, part)
	if err != nil {
		return headgate.Decision{}, err
	}
	now, _, found, err := s.step(ctx, op, &a)
	if err != nil {
		return headgate.Decision{}, err
	}
	var d headgate.Decision
	if op == opLook {
		d, err = a.decide(now, found, false)
	} else {
		d, err = a.charged(now, found)
	}
	return d, s.named(err, a.key)
}

// giveSplit gives back to the part that the receipt is of, or to all. A part that is no more gets nothing.
func (s *Store) giveSplit(ctx context.Context, keys *keyMaker, c *headgate.Check, r headgate.Receipt, parts int) error {
	number := int(r.Lease & splitMask)
	if number != everyPart {
		if number == 0 || number > parts {
			return nil
		}
		return s.giveOne(ctx, keys, shareOf(c, parts, number-1), r, number-1)
	}
	for part := range parts {
		share := shareOf(c, parts, part)
		if share.Cost = sliceOf(c.Cost, parts, part); share.Cost == 0 {
			break
		}
		if err := s.giveOne(ctx, keys, share, r, part); err != nil {
			return err
		}
	}
	return nil
}
