package ledger

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/server/fleet"
)

// dated is the clock of the conformance suite, which knows the date, and goes back at times.
type dated struct{ now func() time.Time }

func (d dated) Now() time.Duration { return d.now().Sub(limittest.Start) }

func (dated) AfterFunc(time.Duration, func()) fleet.Timer { panic("a ledger wakes nobody") }

func TestALedgerAloneIsAnExactLimiter(t *testing.T) {
	limittest.RunOptions(t, func(t testing.TB, now func() time.Time) headgate.Limiter {
		l, err := New(fleet.LedgerOptions{Clock: dated{now}, Epoch: limittest.Start}, false)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}, limittest.Options{Steps: 200, Goroutines: 100})
}
