package redisstore

import (
	"context"
	"strings"

	"github.com/headgate/headgate"
)

// With Options.SecondSecret, each check has two keys in Redis, one under each secret. A check takes its cost from both
// keys or from neither. At any time, one of the keys has counted all consumption: first the key under the old secret,
// and when all stores have the new secret, the key under the new one. So limits stay exact.

// underSecondSecret returns the request for the key under the second secret.
func (r *request) underSecondSecret() *request {
	second := *r
	second.key, second.secondKey, second.conversion = r.secondKey, "", ""
	return &second
}

// takeSecond takes units from the key under the second secret, after they were taken from the first key. d is the
// decision about the first key, and before the state before it. If the second key denies, takeSecond gives the units
// back to the first.
func (s *Store) takeSecond(
	ctx context.Context, r *request, d headgate.Decision, before priorState,
) (headgate.Decision, priorState, error) {
	other, beforeOther, err := s.takeKey(ctx, r.underSecondSecret())
	if err != nil || !other.Allowed {
		s.refund(ctx, d.Receipt.Units, func(ctx context.Context) { s.refundKey(ctx, r, d.Receipt) })
		return other, beforeOther, err
	}
	if other.Remaining < d.Remaining {
		before = beforeOther
	}
	return tighter(d, other), before, nil
}

// refundKey gives the units of a receipt back to the key of a request. It does not change the key under the second
// secret.
func (s *Store) refundKey(ctx context.Context, r *request, receipt headgate.Receipt) {
	if receipt.Units == 0 {
		return
	}
	refund := *r
	refund.cost, refund.lease, refund.conversion = receipt.Units, receipt.Lease, ""
	if err := s.giveKey(ctx, &refund, receipt); err != nil {
		s.lostRefunds.Add(receipt.Units)
	}
}

// tighter combines the decisions about the two keys of a check: of each figure it returns the more restrictive one. It
// keeps the receipt of d.
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

// grantSecond takes units from the key under the second secret, after they were granted by the first key. If the second
// key grants fewer units, grantSecond gives the difference back to the first key.
func (s *Store) grantSecond(ctx context.Context, r *request, d headgate.Decision) (headgate.Decision, error) {
	const share = 1 // all remaining units may be granted
	other, err := s.grant(ctx, r.underSecondSecret(), d.Receipt.Units, share)
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

// renewSecond renews the lease in the key under the second secret. heldFirst reports whether the first key has the
// lease. If a store with only one secret has taken the lease, only one key has it. renewSecond then adds the lease to
// the other key, because its holder may keep it for longer than the old secret is used.
func (s *Store) renewSecond(ctx context.Context, r *request, heldFirst bool) (bool, error) {
	second := r.underSecondSecret()
	_, heldSecond, _, err := s.runStep(ctx, opRenew, second)
	if err != nil || heldFirst == heldSecond {
		return heldFirst || heldSecond, err
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

// shardNames returns the names of the servers in a shard name that joinShards has returned.
func shardNames(shard string) []string { return strings.Split(shard, shardSeparator) }
