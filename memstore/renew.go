package memstore

import (
	"context"

	"github.com/headgate/headgate"
)

// Renew extends the lease of a concurrency limit by another TTL. See [headgate.Limiter].
func (s *Store) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (held bool, err error) {
	p, err := s.prepare(ctx, &c)
	if err != nil {
		return false, err
	}
	if err := headgate.ValidateRefund(c.Cost, r); err != nil {
		return false, err
	}
	if c.Limit.Algorithm != headgate.Concurrency {
		return false, headgate.ErrUnsupported
	}
	a := s.ask(p, c.Key, c.Cost)
	sh := s.lockFor(&a)
	defer sh.mu.Unlock()
	if err := s.widen(sh, &a); err != nil {
		return false, err
	}
	record, err := s.roomWide(sh, &a)
	if err != nil {
		return false, err
	}
	state, held, err := p.Renew(stateOf(record), a.now, a.n, r.Lease)
	if err != nil {
		return false, err
	}
	a.settle(record, state, p.Decide(state, a.now, 0).ResetAfter)
	return held, nil
}
