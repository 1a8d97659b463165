package envoyrls

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"github.com/headgate/headgate"
)

// count takes hits whether they are denied or not: they are charged, and that a charge is within the limit means that they
// would have been allowed. In this process taking is quicker, and only what is denied need be charged. That is charged however
// far over the limit: another limit may count under the same key, one that a request brings along or that of the next
// configuration.
func (s *Server) count(ctx context.Context, c *headgate.Check) (headgate.Decision, error) {
	if s.borrows {
		if d, err := s.config.Store.Take(ctx, *c); err != nil || d.Allowed {
			return d, err
		}
	}
	return s.config.Store.Charge(ctx, *c)
}

// giveBack returns what was taken for a request that is denied, all at once if the store is asked over a network, and
// updates the statuses of those limits. Limits in shadow mode keep what they took, and an exceeded limit has taken nothing.
func (s *Server) giveBack(ctx context.Context, c *call) {
	taken := 0
	for _, i := range c.asked {
		if f := &c.found[i]; f.decision.Receipt.Units > 0 && !f.limit.shadow && !c.request.descriptors[i].negative {
			c.asked[taken] = i // the rest of the list is not used any more
			taken++
		}
	}
	if c.asked = c.asked[:taken]; taken == 0 {
		return
	}
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer end()
	s.eachTaken(c, func(i int, key string) { s.giveBackOne(ctx, &c.found[i], key) })
	s.eachTaken(c, func(i int, key string) { s.lookAgain(ctx, c, i, key) }) // after all returns: some may share a counter
}

// eachTaken calls do for the descriptors of c.asked, all at once if the store is asked over a network.
func (s *Server) eachTaken(c *call, do func(i int, key string)) {
	if s.borrows {
		for _, i := range c.asked {
			key := c.keys[c.found[i].key.from:c.found[i].key.to]
			do(i, unsafe.String(unsafe.SliceData(key), len(key)))
		}
		return
	}
	keys := string(c.keys)
	for _, i := range c.asked {
		span := c.found[i].key
		c.under.Go(func() { do(i, keys[span.from:span.to]) })
	}
	c.under.Wait()
}

func (s *Server) giveBackOne(ctx context.Context, f *finding, key string) {
	receipt := f.decision.Receipt
	check := headgate.Check{Key: key, Limit: f.limit.counted, Cost: receipt.Units, OnFailure: s.config.OnFailure}
	if err := s.config.Store.Give(ctx, check, receipt); err != nil {
		s.config.OnError(fmt.Errorf("envoyrls: return what a denied request has taken: %w", err))
	}
}

// lookAgain updates the status of a descriptor whose units were returned.
func (s *Server) lookAgain(ctx context.Context, c *call, i int, key string) {
	f := &c.found[i]
	d, err := s.config.Store.Take(ctx, headgate.Check{Key: key, Limit: f.limit.counted, OnFailure: s.config.OnFailure})
	if err != nil {
		s.config.OnError(fmt.Errorf("envoyrls: look at a limit after a return: %w", err))
		return
	}
	f.decision = d
	s.measure(f, &c.statuses[i])
}

// giveBackTime is the most time for returning units. Units that are not returned drain or expire like all others.
const giveBackTime = time.Second
