package region

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// chargers is the number of concurrent charges.
const chargers = 32

// chargeAll charges the owed units of keys to the region's store, in the order of the keys. It also gives back units
// that no longer count. The order makes simulations reproducible.
func (l *Limiter) chargeAll(ctx context.Context, keys iter.Seq2[tally.Key, *keyState]) {
	var due []charge
	for key, k := range keys {
		c := charge{key: key, k: k}
		if c.faded, c.fading = l.fade(key, k); k.owed+c.faded+c.fading > 0 {
			due = append(due, c)
		}
	}
	slices.SortFunc(due, func(a, b charge) int { return bytes.Compare(a.key[:], b.key[:]) })
	c := chargeGroup{region: l, slots: make(chan struct{}, chargers)}
	for i := range due {
		c.start(ctx, &due[i])
	}
	c.wait(func() bool { return len(c.slots) == 0 })
	c.group.Wait()
	var owed int64
	for _, k := range l.keys {
		owed += k.owed
	}
	l.charges.owed.Store(owed)
}

// batchKeys yields the keys of this round.
func (l *Limiter) batchKeys(yield func(tally.Key, *keyState) bool) {
	for i := range l.batch.Tallies {
		key := l.batch.Tallies[i].Key
		if k := l.keys[key]; k != nil && !yield(key, k) {
			return
		}
	}
}

// A charge has the changes that chargeAll makes to one key.
type charge struct {
	key           tally.Key
	check         headgate.Check
	k             *keyState
	faded, fading int64 // units to give back; see fade
}

// A chargeGroup runs several charges concurrently.
type chargeGroup struct {
	region *Limiter
	slots  chan struct{}
	group  sync.WaitGroup
}

// wait waits until ready returns true, if the clock is that of a simulator, where a goroutine must not block.
func (c *chargeGroup) wait(ready func() bool) {
	if s, ok := c.region.clock.Clock.(clock.Scheduler); ok {
		s.Wait(ready)
	}
}

// start charges the owed units of a key.
func (c *chargeGroup) start(ctx context.Context, item *charge) {
	k, ok := item.k, false
	item.check, ok = c.region.ledger.CheckOf(item.key)
	if !ok { // the key was unused for a long time, in which the units have drained
		k.owed, k.faded, k.fading = 0, fadingUnits{}, fadingUnits{}
		return
	}
	item.check.Cost = min(k.owed, headgate.MaxCount)
	c.wait(func() bool { return len(c.slots) < chargers })
	c.slots <- struct{}{}
	c.group.Add(1)
	clock.Go(c.region.clock.Clock, func() {
		defer c.group.Done()
		defer func() { <-c.slots }()
		c.region.giveBack(ctx, item.check, item.faded, k.faded.receipt)
		c.region.giveBack(ctx, item.check, item.fading, k.fading.receipt)
		if item.check.Cost > 0 {
			c.region.charge(ctx, item.key, item.check, k)
		}
	})
}

func (l *Limiter) charge(ctx context.Context, key tally.Key, c headgate.Check, k *keyState) {
	d, err := l.store.Charge(ctx, c)
	if err != nil {
		// The store may have charged the units, so they are not charged again.
		l.charges.lost.Add(c.Cost)
		k.owed -= c.Cost
		k.faded, k.fading = fadingUnits{}, fadingUnits{}
		return
	}
	charged := d.Receipt.Units
	if d.Degraded {
		charged = c.Cost
		k.faded, k.fading = fadingUnits{}, fadingUnits{}
	} else {
		if charged > 0 {
			k.fading.receipt = d.Receipt
		}
		l.ledger.SetLevel(key, &d)
	}
	k.owed -= charged
	k.charged += charged
	k.level += charged
	l.charges.charged.Add(charged)
	if debt := k.owed - d.Remaining; debt > k.maxDebt {
		l.ledger.CountOver(debt, debt-max(0, k.maxDebt))
		k.maxDebt = debt
	} else if d.Remaining >= d.Limit {
		k.maxDebt = 0
	}
}
