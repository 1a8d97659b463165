package region

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet/internal/ledger"
)

// chargers is the number of concurrent charges.
const chargers = 32

// chargeAll charges the owed units of some keys to the region's store, in the order of the keys.
func (g *Limiter) chargeAll(ctx context.Context, keys iter.Seq2[ledger.Key, *keyState]) {
	var due []ledger.Key
	for key, k := range keys {
		if k.owed > 0 {
			due = append(due, key)
		}
	}
	slices.SortFunc(due, func(a, b ledger.Key) int { return bytes.Compare(a[:], b[:]) })
	c := charging{region: g, slots: make(chan struct{}, chargers)}
	for _, key := range due {
		c.start(ctx, key, g.keys[key])
	}
	c.wait(func() bool { return len(c.slots) == 0 })
	c.group.Wait()
	var owed int64
	for _, k := range g.keys {
		owed += k.owed
	}
	g.charges.owed.Store(owed)
}

// batchKeys returns the keys of this round.
func (g *Limiter) batchKeys(yield func(ledger.Key, *keyState) bool) {
	for i := range g.batch.Tallies {
		key := g.batch.Tallies[i].Key
		if k := g.keys[key]; k != nil && !yield(key, k) {
			return
		}
	}
}

// charging runs several charges concurrently.
type charging struct {
	region *Limiter
	slots  chan struct{}
	group  sync.WaitGroup
}

// wait lets other goroutines of a simulator run until ready returns true.
func (c *charging) wait(ready func() bool) {
	if s, ok := c.region.clock.Clock.(clock.Scheduler); ok {
		s.Wait(ready)
	}
}

// start charges the owed units of a key.
func (c *charging) start(ctx context.Context, key ledger.Key, k *keyState) {
	check, ok := c.region.ledger.CheckOf(key)
	if !ok { // the key was unused for long, and the owed units have drained since
		k.owed = 0
		return
	}
	check.Cost = min(k.owed, headgate.MaxCount)
	c.wait(func() bool { return len(c.slots) < chargers })
	c.slots <- struct{}{}
	c.group.Add(1)
	clock.Go(c.region.clock.Clock, func() {
		defer c.group.Done()
		defer func() { <-c.slots }()
		c.region.charge(ctx, key, check, k)
	})
}

func (g *Limiter) charge(ctx context.Context, key ledger.Key, c headgate.Check, k *keyState) {
	d, err := g.store.Charge(ctx, c)
	if err != nil {
		// It may have been charged, so it is not charged again.
		g.charges.lost.Add(c.Cost)
		k.owed -= c.Cost
		return
	}
	charged := d.Receipt.Units
	if d.Degraded {
		charged = c.Cost
	} else {
		g.ledger.SetLevel(key, &d)
	}
	k.owed -= charged
	k.charged += charged
	k.level += charged
	g.charges.charged.Add(charged)
	if debt := k.owed - d.Remaining; debt > k.deepest {
		g.ledger.CountOver(debt, debt-max(0, k.deepest))
		k.deepest = debt
	} else if d.Remaining >= d.Limit {
		k.deepest = 0
	}
}
