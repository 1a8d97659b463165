package redisstore

import (
	"context"

	"github.com/headgate/headgate"
)

// Renew extends the lease of a concurrency limit by another TTL, in one round trip. See [headgate.Limiter].
func (s *Store) Renew(ctx context.Context, c headgate.Check, receipt headgate.Receipt) (held bool, err error) {
	keys, err := s.beginCheck(ctx, &c)
	if err == nil {
		err = headgate.ValidateRefund(c.Cost, receipt)
	}
	if err != nil {
		return false, err
	}
	if c.Limit.Algorithm != headgate.Concurrency {
		return false, headgate.ErrUnsupported
	}
	check, part := &c, unsplit
	if parts := partsOf(&c); parts > 1 {
		number := int(receipt.Lease & partMask) // of the part that has the lease, from 1 on
		if number == 0 || number > parts {
			return false, nil // the part no longer exists, because the check now has fewer parts
		}
		part = number - 1
		check = shareOf(&c, parts, part)
	}
	r, err := s.newRequest(keys, check, part)
	if err != nil {
		return false, err
	}
	r.lease = receipt.Lease
	_, held, _, err = s.runStep(ctx, opRenew, &r)
	if err == nil && r.secondKey != "" {
		return s.renewSecond(ctx, &r, held)
	}
	return held, err
}
