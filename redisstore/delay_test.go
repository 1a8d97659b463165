package redisstore

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
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
	t.Parallel()
	const callers = 8
	start := time.Now()
	s := apart(open(t, redistest.Standalone(t, redistest.Options{}).URL(), Options{Secret: testSecret}),
		func() time.Time { return start })
	var charged, done sync.WaitGroup
	charged.Add(callers)
	b := headgate.MustBind(lateCharger{s, &charged}, headgate.MustParseLimit("1/s burst 1"))
	delays := make([]time.Duration, callers)
	for i := range callers {
		done.Go(func() {
			d, err := b.Delay(t.Context(), "alice", 1)
			if err != nil || !d.Allowed {
				t.Errorf("got %+v, %v, want allowed", d, err)
			}
			delays[i] = d.Delay
		})
	}
	done.Wait()
	slices.Sort(delays)
	for i, got := range delays {
		if want := time.Duration(i) * time.Second; got != want {
			t.Errorf("delay %d: got %v, want %v", i, got, want)
		}
	}
}
