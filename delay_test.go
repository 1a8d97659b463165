package headgate_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/stepstore"
	"github.com/headgate/headgate/memstore"
)

// lateCharger is a limiter whose callers are all charged before one of them does anything else.
type lateCharger struct {
	headgate.Limiter
	charged *sync.WaitGroup
}

func (l lateCharger) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	d, err := l.Limiter.Charge(ctx, c)
	l.charged.Done()
	l.charged.Wait()
	return d, err
}

func TestConcurrentDelaysAreDifferent(t *testing.T) {
	const callers = 8
	for _, text := range []string{"1/s burst 1", "7/s gcra burst 1", "3/m burst 2"} {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.MustNew(memstore.Options{})
			defer store.Close()
			for name, l := range map[string]headgate.Limiter{"memstore": store, "any": stepstore.New(time.Now)} {
				var charged, done sync.WaitGroup
				charged.Add(callers)
				b := headgate.MustBind(lateCharger{l, &charged}, headgate.MustParseLimit(text))
				b.AllowN("alice", b.Limit().Capacity())
				delays := make([]time.Duration, callers)
				for i := range callers {
					done.Go(func() {
						d, err := b.Delay(t.Context(), "alice", 1)
						if err != nil || !d.Allowed {
							t.Errorf("%s over %s: got %+v, %v, want allowed", text, name, d, err)
						}
						delays[i] = d.Delay
					})
				}
				done.Wait()
				slices.Sort(delays)
				for i, got := range delays {
					// Delays are rounded up to a microsecond.
					exact := time.Duration(i+1) * b.Limit().Period / time.Duration(b.Limit().Count)
					if got < exact || got > exact+2*time.Microsecond {
						t.Errorf("%s over %s: delay %d: got %v, want %v", text, name, i, got, exact)
					}
				}
			}
		})
	}
}
