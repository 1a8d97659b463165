package redisstore

import (
	"context"

	"github.com/headgate/headgate"
)

// Renew gives the slot of a concurrency limit another TTL, in one round trip. See [headgate.Limiter].
func (s *Store) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (held bool, err error) {
	keys, err := s.admit(ctx)
	if err == nil {
		err = validate(&c)
	}
	if err == nil {
		err = headgate.ValidateRefund(c.Cost, r)
	}
	if err != nil {
		return false, err
	}
	if c.Limit.Algorithm != headgate.Concurrency {
		return false, headgate.ErrUnsupported
	}
	check, part := &c, unsplit
	if parts := partsOf(&c); parts > 1 {
		number := int(r.Lease & splitMask)
		if number == 0 || number > parts {
			return false, nil // there is no such part any more
		}
		part = number - 1
		check = shareOf(&c, parts, part)
	}
	a, err := s.ask(keys, check, part)
	if err != nil {
		return false, err
	}
	a.lease = r.Lease
	_, held, _, err = s.step(ctx, opRenew, &a)
	return held, err
}
