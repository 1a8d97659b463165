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

// giveBack gives back what was taken for a request that is denied, all at once if the store is asked over a network. What is in
// shadow mode is counted on its own, and a limit that was exceeded has taken nothing.
func (s *Server) giveBack(ctx context.Context, c *call) {
	taken := 0
	for _, i := range c.asked {
		if f := &c.found[i]; f.decision.Receipt.Units > 0 && !f.limit.shadow && !c.request.descriptors[i].negative {
			c.asked[taken] = i // nobody asks for them any more
			taken++
		}
	}
	if c.asked = c.asked[:taken]; taken == 0 {
		return
	}
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer end()
	if s.borrows {
		for _, i := range c.asked {
			key := c.keys[c.found[i].key.from:c.found[i].key.to]
			s.giveBackOne(ctx, &c.found[i], unsafe.String(unsafe.SliceData(key), len(key)))
		}
		return
	}
	keys := string(c.keys)
	for _, i := range c.asked {
		f := &c.found[i]
		c.under.Go(func() { s.giveBackOne(ctx, f, keys[f.key.from:f.key.to]) })
	}
	c.under.Wait()
}

func (s *Server) giveBackOne(ctx context.Context, f *finding, key string) {
	receipt := f.decision.Receipt
	check := headgate.Check{Key: key, Limit: f.limit.counted, Cost: receipt.Units, OnFailure: s.config.OnFailure}
	if err := s.config.Store.Give(ctx, check, receipt); err != nil {
		s.config.OnError(fmt.Errorf("envoyrls: give back what a request that is denied has taken: %w", err))
	}
}

// giveBackTime is how long that may take. What is not given back comes back in time.
const giveBackTime = time.Second
