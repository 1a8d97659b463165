package redisstore

import (
	"context"
	"strings"

	"github.com/headgate/headgate"
)

// With Options.SecondSecret, each check has two keys in Redis, one under each secret, with the same limit and cost. A
// check takes from both or from none. So the key that has all consumption decides, whichever of the two it is: before
// all stores have the new secret it is the key under the old one, and when stores without the old secret start it is
// the key under the new one.

// underSecond returns the request for the key under the second secret.
func (r *request) underSecond() *request {
	second := *r
	second.key, second.second, second.carried = r.second, "", ""
	return &second
}

// takeSecond takes from the key under the second secret. If it denies, what was taken from the other key is given back.
func (s *Store) takeSecond(
	ctx context.Context, r *request, d headgate.Decision, before foundState,
) (headgate.Decision, foundState, error) {
	other, beforeOther, err := s.takeKey(ctx, r.underSecond())
	if err != nil || !other.Allowed {
		s.refund(ctx, d.Receipt.Units, func(ctx context.Context) { s.refundKey(ctx, r, d.Receipt) })
		return other, beforeOther, err
	}
	if other.Remaining < d.Remaining {
		before = beforeOther
	}
	return tighter(d, other), before, nil
}

// refundKey gives back what was taken from one key of a request.
func (s *Store) refundKey(ctx context.Context, r *request, receipt headgate.Receipt) {
	if receipt.Units == 0 {
		return
	}
	refund := *r
	refund.cost, refund.lease, refund.carried = receipt.Units, receipt.Lease, ""
	if err := s.giveKey(ctx, &refund, receipt); err != nil {
		s.lostRefunds.Add(receipt.Units)
	}
}

// tighter combines the decisions about the two keys of a check. The receipt is that of the first.
func tighter(d, other headgate.Decision) headgate.Decision {
	d.Allowed = d.Allowed && other.Allowed
	d.Remaining = min(d.Remaining, other.Remaining)
	d.ResetAfter = max(d.ResetAfter, other.ResetAfter)
	d.Delay = max(d.Delay, other.Delay)
	if d.RetryAfter != headgate.Never && (other.RetryAfter == headgate.Never || other.RetryAfter > d.RetryAfter) {
		d.RetryAfter = other.RetryAfter
	}
	return d
}

// grantSecond takes the granted units from the key under the second secret as well, or as many of them as it has. The
// others are given back.
func (s *Store) grantSecond(ctx context.Context, r *request, d headgate.Decision) (headgate.Decision, error) {
	other, err := s.grant(ctx, r.underSecond(), d.Receipt.Units, 1)
	unused := d.Receipt
	if err == nil && other.Allowed {
		unused.Units -= other.Receipt.Units
	}
	if unused.Units > 0 {
		s.refund(ctx, unused.Units, func(ctx context.Context) { s.refundKey(ctx, r, unused) })
	}
	if err != nil || !other.Allowed {
		return other, err
	}
	granted := other.Receipt.Units
	d = tighter(d, other)
	d.Receipt.Units = granted
	return d, nil
}

// renewSecond renews the lease under the second secret. A lease that only one key has, because it was taken by a store
// with one secret, is added to the other: its holder may keep it for longer than the rotation takes.
func (s *Store) renewSecond(ctx context.Context, r *request, held bool) (bool, error) {
	second := r.underSecond()
	_, heldSecond, _, err := s.runStep(ctx, opRenew, second)
	if err != nil || held == heldSecond {
		return held || heldSecond, err
	}
	missing := second
	if heldSecond {
		missing = r
	}
	_, _, _, err = s.runStep(ctx, opTake, missing)
	return true, err
}

// shardSeparator separates the names of the two servers of a check.
const shardSeparator = " and "

// joinShards returns the name for a check whose keys are on two servers.
func joinShards(a, b string) string {
	if a == b {
		return a
	}
	return a + shardSeparator + b
}

// shardNames returns the names of the servers in a name of Shard.
func shardNames(shard string) []string { return strings.Split(shard, shardSeparator) }
