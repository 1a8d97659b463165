package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/renewal"
)

// ErrSlotLost is reported to Config.OnError when a request loses its slot of a concurrency limit while it is served.
// The slot has expired because the store was unreachable for too long, and another request has taken it. KeepSlots
// takes a slot again as soon as one is free.
var ErrSlotLost = errors.New("engine: the slot of a request that is being served was lost")

// A slotKeeper renews the slots of a verdict. When the verdict is reused for another request, its slotKeeper is, too.
type slotKeeper struct {
	verdict *Verdict
	renewal renewal.Renewal
	renew   func() // the method renewAll; stored, because each use of a method value allocates
}

// KeepSlots starts to renew the slots that the request holds under concurrency limits, which would otherwise expire
// after the TTL of these limits. Settle, SettleIncomplete and Cancel end the renewal; the caller must call one of them.
// Until then the verdict must not be copied. For a verdict without slots KeepSlots does nothing.
//
// A failed renewal is reported to Config.OnError, and retried.
func (v *Verdict) KeepSlots() {
	if v.holdsUnits && v.needsSettle { // so short that the compiler inlines it
		v.keepSlots()
	}
}

func (v *Verdict) keepSlots() {
	var ttl time.Duration
	for i := range v.checks {
		if l := &v.checks[i].Limit; v.holdsSlot(i) && (ttl == 0 || ttlOf(l) < ttl) {
			ttl = ttlOf(l)
		}
	}
	if ttl == 0 {
		return
	}
	if v.slotKeeper == nil {
		v.slotKeeper = &slotKeeper{verdict: v}
		v.slotKeeper.renew = v.slotKeeper.renewAll
	}
	v.renewing = true
	v.slotKeeper.renewal.Start(v.engine.config.Clock, ttl, v.slotKeeper.renew)
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

// stopRenewal stops the renewal that KeepSlots has started. It must be called before slots are released, because a
// renewal would take them again.
func (v *Verdict) stopRenewal() {
	if v.renewing {
		v.renewing = false
		v.slotKeeper.renewal.Stop()
	}
}

// renewAll renews the verdict's slots and reports the error.
func (k *slotKeeper) renewAll() {
	ctx, cancel := context.WithTimeout(context.Background(), followUpTimeout)
	defer cancel()
	if err := k.verdict.RenewSlots(ctx); err != nil {
		k.verdict.engine.report(err)
	}
}

// RenewSlots renews the request's slots once, for callers with their own timers. All other callers should use
// KeepSlots. The error joins one error for each slot that was lost (ErrSlotLost) or whose store failed. RenewSlots must
// not be called concurrently with Settle, SettleIncomplete, Cancel or a Decide of the same verdict; other methods may.
func (v *Verdict) RenewSlots(ctx context.Context) error {
	var errs []error
	for i := range v.checks {
		if !v.holdsUnits || !v.holdsSlot(i) {
			continue
		}
		c, r := v.checks[i], v.decisions[i].Receipt
		c.Cost = r.Units
		held, err := v.store(i).Renew(ctx, c, r)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("engine: renew a slot of rule %s: %w", v.rule(i).ID, err))
		case !held:
			errs = append(errs, fmt.Errorf("%w: rule %s", ErrSlotLost, v.rule(i).ID))
		}
	}
	return errors.Join(errs...)
}
