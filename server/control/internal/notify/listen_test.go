package notify

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestListenPausesGrowUntilACallLasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		away := errors.New("away")
		var pauses []time.Duration
		last := time.Now()
		told := 0
		Listen(ctx, func(ctx context.Context) error {
			pauses = append(pauses, time.Since(last))
			switch len(pauses) {
			case 12: // this call lasts
				time.Sleep(time.Minute)
			case 14:
				cancel()
			}
			last = time.Now()
			return away
		}, func(err error) {
			if told++; !errors.Is(err, away) {
				t.Errorf("got %v, want %v", err, away)
			}
		})
		if told != 13 || len(pauses) != 14 {
			t.Fatalf("heard %d times, told %d times; want 14 and 13", len(pauses), told)
		}
		if pauses[0] != 0 || pauses[1] > retryMin || pauses[11] < retryMax/2 || pauses[11] > retryMax || pauses[12] > retryMin {
			t.Errorf("got pauses %v", pauses)
		}
	})
}
