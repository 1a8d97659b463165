package region

import (
	"context"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet/internal/ledger"
)

// chargers is how many charges are under way at once.
const chargers = 32

// chargeAll charges what is owed to the region's store.
func (g *Limiter) chargeAll(ctx context.Context) {
	c := charging{region: g, places: make(chan struct{}, chargers)}
	for key, k := range g.keys {
		c.start(ctx, key, k)
	}
	c.group.Wait()
	var owed int64
	for _, k := range g.keys {
		owed += k.owed
	}
	g.charges.owed.Store(owed)
}

// chargeBatch charges what is owed of the keys of this round.
func (g *Limiter) chargeBatch(ctx context.Context) {
	c := charging{region: g, places: make(chan struct{}, chargers)}
	for i := range g.batch.Tallies {
		key := g.batch.Tallies[i].Key
		if k := g.keys[key]; k != nil {
			c.start(ctx, key, k)
		}
	}
	c.group.Wait()
}

// charging is some charges at once.
type charging struct {
	region *Limiter
	places chan struct{}
	group  sync.WaitGroup
}

// start charges what is owed of a key.
func (c *charging) start(ctx context.Context, key ledger.Key, k *regionKey) {
	if k.owed <= 0 {
		return
	}
	check, ok := c.region.ledger.CheckOf(key)
	if !ok { // nobody has asked for long, and what is owed has been repaid since
		k.owed = 0
		return
	}
	check.Cost = min(k.owed, headgate.MaxCount)
	c.places <- struct{}{}
	c.group.Go(func() {
		defer func() { <-c.places }()
		c.region.charge(ctx, key, check, k)
	})
}

func (g *Limiter) charge(ctx context.Context, key ledger.Key, c headgate.Check, k *regionKey) {
	d, err := g.inner.Charge(ctx, c)
	if err != nil {
		// It may have been charged, and is not charged again.
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
	if debt := k.owed - d.Remaining; debt > k.over {
		g.ledger.CountOver(debt, debt-max(0, k.over))
		k.over = debt
	} else if d.Remaining >= d.Limit {
		k.over = 0
	}
}
