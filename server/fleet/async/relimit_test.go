package async

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

func TestAsyncALoweredLimitReopensInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := startAsync(t, 3, fleettest.NewBoard(time.Millisecond), nil)
		defer closeAsync(t, all...)
		from, to := headgate.Limit{Count: 10, Period: time.Second, Burst: 100}, headgate.Limit{Count: 5, Period: time.Second, Burst: 100}
		for _, a := range all {
			if d, err := a.Take(t.Context(), headgate.Check{Key: "k", Limit: from, Cost: 100}); err != nil || !d.Allowed {
				t.Fatalf("the first decision: got %+v, %v, want allowed", d, err)
			}
		}
		start := time.Now()
		for limit := from; ; time.Sleep(50 * time.Millisecond) {
			if time.Since(start) > 18*time.Second {
				limit = to
			}
			d, err := all[0].Take(context.Background(), headgate.Check{Key: "k", Limit: limit, Cost: 1})
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				break
			}
		}
		// 300 taken, 180 drained in 18 s, and 21 more at 5/s.
		if took, want := time.Since(start), 22200*time.Millisecond; (took - want).Abs() > 400*time.Millisecond {
			t.Errorf("the key reopened after %v, want %v", took, want)
		}
	})
}
