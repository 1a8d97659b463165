package memstore

import (
	"context"

	"github.com/headgate/headgate"
)

// eachRoom is how many checks TakeEach looks up together.
const eachRoom = 16

// TakeEach decides each check on its own, in order, as Take does. The results are in dst and, for those that failed, in
// errs, at the same index. All three have the same length, and errs has only nil at the start.
//
// The memory that several checks need is read before the first of them is decided, so that the CPU fetches it in
// parallel instead of waiting for each in turn. The clock is read once for them.
func (s *Store) TakeEach(ctx context.Context, checks []*headgate.Check, dst []*headgate.Decision, errs []error) {
	if err := s.admit(ctx); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return
	}
	var asks [eachRoom]ask
	for from := 0; from < len(checks); from += eachRoom {
		to := min(from+eachRoom, len(checks))
		s.takeSome(asks[:to-from], checks[from:to], dst[from:to], errs[from:to])
	}
}

func (s *Store) takeSome(asks []ask, checks []*headgate.Check, dst []*headgate.Decision, errs []error) {
	var known *plan // of the check before, which often has the same limit
	for i, c := range checks {
		a := &asks[i]
		*a = ask{n: c.Cost}
		if known == nil || c.Limit != known.limit || c.Cost < 1 || c.Key == "" || len(c.Key) > headgate.MaxKeyBytes {
			known, errs[i] = s.planOf(c)
		}
		if known != nil {
			a.plan, a.key, a.hash = known, c.Key, s.hash(known, c.Key)
		}
	}
	s.fetchAll(asks)
	now := s.now()
	for i, c := range checks {
		a := &asks[i]
		p := a.plan
		if p == nil {
			continue
		}
		a.at(now)
		if p.compact && a.takes() {
			switch pair, took := s.takeCompact(p, a.hash, a.now, a.n); took {
			case yes:
				p.Describe(dst[i], pair, a.now, a.n)
				continue
			case no:
				*dst[i] = p.DecidePair(pair, a.now, a.n)
				continue
			}
		}
		errs[i] = s.take(p, c.Key, c.Cost, dst[i])
	}
}

// fetchAll makes the CPU fetch the memory that decisions will read. These reads do not depend on each other, so they
// run in parallel.
func (s *Store) fetchAll(asks []ask) {
	for i := range asks {
		s.fetch(asks[i].hash)
	}
}

// lineSlots is how many slots there are in a line of the cache.
const lineSlots = 64 / slotBytes
