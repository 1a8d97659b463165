package memstore

import (
	"context"

	"github.com/headgate/headgate"
)

// eachBatch is the number of checks that TakeEach looks up together.
const eachBatch = 16

// TakeEach calls Take for each check, in order. It writes the decision and the error to dst and errs, at the index of
// the check. All three slices must have the same length, and errs must contain only nil.
//
// The memory that a batch of checks needs is read before the first of them is decided, so that the CPU fetches it in
// parallel. The clock is read once per batch.
func (s *Store) TakeEach(ctx context.Context, checks []*headgate.Check, dst []*headgate.Decision, errs []error) {
	if err := s.checkOpen(ctx); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return
	}
	var batch [eachBatch]operation
	for from := 0; from < len(checks); from += eachBatch {
		to := min(from+eachBatch, len(checks))
		s.takeBatch(batch[:to-from], checks[from:to], dst[from:to], errs[from:to])
	}
}

// takeBatch is TakeEach for the checks of one batch. batch has an element for each of them.
func (s *Store) takeBatch(batch []operation, checks []*headgate.Check, dst []*headgate.Decision, errs []error) {
	var plan *plan // the plan of the previous check, which often has the same limit
	for i, c := range checks {
		op := &batch[i]
		*op = operation{units: c.Cost}
		if plan == nil || c.Limit != plan.limit || c.Cost < 1 || c.Key == "" || len(c.Key) > headgate.MaxKeyBytes {
			plan, errs[i] = s.planOf(c)
		}
		if plan != nil {
			op.plan, op.key, op.hash = plan, c.Key, s.hash(plan, c.Key)
		}
	}
	for i := range batch { // these reads do not depend on each other, so they run in parallel
		s.prefetchSlot(batch[i].hash)
	}
	now := s.now()
	for i, c := range checks {
		op := &batch[i]
		p := op.plan
		if p == nil {
			continue
		}
		op.setTime(now)
		if p.compact && op.feasible() {
			switch pair, result := s.takeCompact(p, op.hash, op.now, op.units); result {
			case takeAllowed:
				p.Describe(dst[i], pair, op.now, op.units)
				continue
			case takeDenied:
				*dst[i] = p.DecidePair(pair, op.now, op.units)
				continue
			}
		}
		*dst[i] = headgate.Decision{} // if take fails, it does not write the decision
		errs[i] = s.take(p, c.Key, c.Cost, dst[i])
	}
}

// lineSlots is the number of slots in a cache line.
const lineSlots = 64 / slotBytes
