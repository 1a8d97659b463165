package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/renewal"
)

// ErrSlotLost is told to Config.OnError when a request is served that its concurrency limit does not count any more: its slot
// has expired, because its store could not be asked for long, and others have taken its place. It is counted again as soon
// as there is room.
var ErrSlotLost = errors.New("engine: the slot of a request that is being served was lost")

// A keeper renews the slots of the request that a verdict was last used for.
type keeper struct {
	verdict *Verdict
	renewal renewal.Renewal
	renew   func() // of the verdict's, made once
}

// KeepSlots renews the slots that the request holds under concurrency limits for as long as it lasts: until Settle, SettleCut
// or Cancel, which must be called then. Without it they expire after the TTL of their limits. It does nothing for a verdict
// that holds none. The verdict stays where it is in memory while it keeps slots.
//
// A slot that cannot be renewed is told to Config.OnError, and tried again.
func (v *Verdict) KeepSlots() {
	if !v.holds || !v.settles {
		return
	}
	var ttl time.Duration
	for i := range v.checks {
		if l := &v.checks[i].Limit; v.holdsSlot(i) && (ttl == 0 || ttlOf(l) < ttl) {
			ttl = ttlOf(l)
		}
	}
	if ttl == 0 {
		return
	}
	if v.keeper == nil {
		v.keeper = &keeper{verdict: v}
		v.keeper.renew = v.keeper.renewAll
	}
	v.keeps = true
	v.keeper.renewal.Start(ttl, v.keeper.renew)
}

// holdsSlot reports whether a check holds a slot of a concurrency limit.
func (v *Verdict) holdsSlot(i int) bool {
	return v.checks[i].Limit.Algorithm == headgate.Concurrency && v.decisions[i].Receipt.Units > 0
}

func ttlOf(l *headgate.Limit) time.Duration {
	if l.TTL == 0 {
		return headgate.DefaultTTL
	}
	return l.TTL
}

// stopKeeping ends what KeepSlots began, before slots are given back.
func (v *Verdict) stopKeeping() {
	if v.keeps {
		v.keeps = false
		v.keeper.renewal.Stop()
	}
}

// renewAll renews the verdict's slots, and tells of those that are not held.
func (k *keeper) renewAll() {
	ctx, end := context.WithTimeout(context.Background(), afterTime)
	defer end()
	if err := k.verdict.RenewSlots(ctx); err != nil {
		k.verdict.engine.report(err)
	}
}

// RenewSlots renews the slots that the request holds once, for callers with a clock of their own. All others want KeepSlots.
// The error says which slots are not held: one that wraps ErrSlotLost, or the store's. It reads of the verdict only what stays
// as it is until Settle, SettleCut or Cancel.
func (v *Verdict) RenewSlots(ctx context.Context) error {
	var errs []error
	for i := range v.checks {
		if !v.holds || !v.holdsSlot(i) {
			continue
		}
		c, r := v.checks[i], v.decisions[i].Receipt
		c.Cost = r.Units
		held, err := v.engine.stores.list[v.asked[i].store].Renew(ctx, c, r)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("engine: renew a slot of rule %s: %w", v.rule(i).ID, err))
		case !held:
			errs = append(errs, fmt.Errorf("%w: rule %s", ErrSlotLost, v.rule(i).ID))
		}
	}
	return errors.Join(errs...)
}
