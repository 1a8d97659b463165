package ledger

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/server/fleet"
)

// A suiteClock is the clock of the conformance suite, which goes back at times. It has no timers.
type suiteClock struct {
	clock.Clock
	now func() time.Time
}

func (c suiteClock) Now() time.Time                  { return c.now() }
func (c suiteClock) Since(t time.Time) time.Duration { return c.now().Sub(t) }

func TestALedgerAloneIsAnExactLimiter(t *testing.T) {
	o := limittest.Options{Steps: 200, Goroutines: 100}
	if racing.Enabled { // a random history is one goroutine's
		o.Steps = 20
	}
	limittest.RunOptions(t, func(t testing.TB, now func() time.Time) headgate.Limiter {
		l, err := New(fleet.LedgerOptions{Clock: suiteClock{now: now}}, fleet.Peer{}, false)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}, o)
}
