package redisstore

import (
	"context"
	"math/rand/v2"

	"github.com/headgate/headgate"
)

// A key that is too hot for one server is counted in parts, in different slots, each with a share of the limit; the
// shares sum to the limit. A request asks one part, drawn at random, and a second one if that denies. So no more than the
// limit passes, and a request can be denied although other parts have room: as long as fewer than half of the parts are
// exhausted, less than a quarter of the requests meet two such. What remains and when to come back is an estimate. A
// cost above a share's capacity is denied for good.

// splitBits is how many bits of a receipt's lease say which part it is of.
const splitBits = 6

// partsOf returns in how many parts a key is counted: never so many that one has no share.
func partsOf(c *headgate.Check) int {
	return int(min(int64(c.Split), c.Limit.Count, c.Limit.Capacity()))
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

// sliceOf cuts n so that the slices sum to n and differ by at most one.
func sliceOf(n int64, parts, part int) int64 {
	slice := n / int64(parts)
	if int64(part) < n%int64(parts) {
		slice++
	}
	return slice
}

// draw returns a part of a check's key and its share, or the check itself if it is not split.
func draw(c *headgate.Check) (int, *headgate.Check) {
	parts := partsOf(c)
	if parts < 2 {
		return unsplit, c
	}
	part := rand.IntN(parts)
	return part, shareOf(c, parts, part)
}

// drawn returns the part that a receipt is of, and its share.
func drawn(c *headgate.Check, r headgate.Receipt) (int, *headgate.Check) {
	parts := partsOf(c)
	if parts < 2 {
		return unsplit, c
	}
	part := int(r.Lease&(1<<splitBits-1)) % parts
	return part, shareOf(c, parts, part)
}

// takeSplit takes from one part, or from a second one.
func (s *Store) takeSplit(ctx context.Context, keys *keyMaker, c *headgate.Check, parts int) (headgate.Decision, error) {
	first := rand.IntN(parts)
	d, err := s.takePart(ctx, keys, c, parts, first)
	if err != nil || d.Allowed || c.Cost == 0 || d.RetryAfter == headgate.Never {
		return d, err
	}
	second := (first + 1 + rand.IntN(parts-1)) % parts
	other, err := s.takePart(ctx, keys, c, parts, second)
	if err != nil || other.Allowed || other.RetryAfter < d.RetryAfter {
		return other, err
	}
	return d, nil
}

func (s *Store) takePart(ctx context.Context, keys *keyMaker, c *headgate.Check, parts, part int) (headgate.Decision, error) {
	a, err := s.ask(keys, shareOf(c, parts, part), part)
	if err != nil {
		return headgate.Decision{}, err
	}
	if a.lease != 0 {
		a.lease = a.lease&^(1<<splitBits-1) | uint64(part)
	}
	d, err := s.take(ctx, &a)
	return whole(c, part, d), err
}

// whole turns the decision on a part into one on its key: of what remains it can only guess that the other parts are
// alike, and the receipt says which part it is of.
func whole(c *headgate.Check, part int, d headgate.Decision) headgate.Decision {
	if part == unsplit || d.Limit == 0 {
		return d
	}
	d.Remaining = min(d.Remaining*int64(partsOf(c)), c.Limit.Capacity())
	d.Limit = c.Limit.Capacity()
	if d.Receipt.Units > 0 && c.Limit.Algorithm != headgate.Concurrency {
		d.Receipt.Lease = uint64(part)
	}
	return d
}
