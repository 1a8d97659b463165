package envoyrls

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"github.com/headgate/headgate"
)

// takeOrCharge counts hits even if they are denied. A charge that stays within the limit means that the hits are
// allowed. For a store in this process, it first calls Take, which is faster, and calls Charge only for denied hits. It
// must charge them even far above the limit, because a limit in a request or in the next configuration may use the same
// key.
func (s *Server) takeOrCharge(ctx context.Context, c *headgate.Check) (headgate.Decision, error) {
	if s.storeBorrowsKeys {
		if d, err := s.config.Store.Take(ctx, *c); err != nil || d.Allowed {
			return d, err
		}
	}
	return s.config.Store.Charge(ctx, *c)
}

// returnUnits returns the units that were taken for a denied request, and updates the statuses of these limits. If the
// store is remote, it makes the calls concurrently. Limits in shadow mode keep their units. Exceeded limits have taken
// none.
func (s *Server) returnUnits(ctx context.Context, c *rateLimitCall) {
	taken := 0
	for _, i := range c.storeChecks {
		if out := &c.outcomes[i]; out.decision.Receipt.Units > 0 && !out.limit.shadow && !c.request.descriptors[i].negative {
			c.storeChecks[taken] = i // reuses the list, whose other elements are no longer needed
			taken++
		}
	}
	if c.storeChecks = c.storeChecks[:taken]; taken == 0 {
		return
	}
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
	defer end()
	s.eachCheck(c, func(i int, key string) { s.returnUnitsOf(ctx, &c.outcomes[i], key) })
	// Descriptors may share a counter, so read the counters only after all units were returned.
	s.eachCheck(c, func(i int, key string) { s.refreshStatus(ctx, c, i, key) })
}

// eachCheck calls do for the descriptors of c.storeChecks, concurrently if the store is remote.
func (s *Server) eachCheck(c *rateLimitCall, do func(i int, key string)) {
	if s.storeBorrowsKeys {
		for _, i := range c.storeChecks {
			key := c.keys[c.outcomes[i].key.from:c.outcomes[i].key.to]
			do(i, unsafe.String(unsafe.SliceData(key), len(key)))
		}
		return
	}
	keys := string(c.keys)
	for _, i := range c.storeChecks {
		span := c.outcomes[i].key
		c.wg.Go(func() { do(i, keys[span.from:span.to]) })
	}
	c.wg.Wait()
}

func (s *Server) returnUnitsOf(ctx context.Context, out *outcome, key string) {
	receipt := out.decision.Receipt
	check := headgate.Check{Key: key, Limit: out.limit.storeLimit, Cost: receipt.Units, OnFailure: s.config.OnFailure}
	if err := s.config.Store.Give(ctx, check, receipt); err != nil {
		s.config.OnError(fmt.Errorf("envoyrls: return the units of a denied request: %w", err))
	}
}

// refreshStatus updates the status of a descriptor after its units were returned.
func (s *Server) refreshStatus(ctx context.Context, c *rateLimitCall, i int, key string) {
	out := &c.outcomes[i]
	check := headgate.Check{Key: key, Limit: out.limit.storeLimit, OnFailure: s.config.OnFailure}
	d, err := s.config.Store.Peek(ctx, check)
	if err != nil {
		s.config.OnError(fmt.Errorf("envoyrls: read a limit after returning units: %w", err))
		return
	}
	out.decision = d
	s.setRemaining(out, &c.statuses[i])
}

// returnTimeout limits the time to return units. Units that are not returned drain or expire like all others.
const returnTimeout = time.Second
