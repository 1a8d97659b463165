package exchange

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/fleet"
)

// Counters are the counters behind fleet.ExchangeStats.
type Counters struct {
	Exchanges, Failures, Sent, Received, Malformed, Foreign, RoundTrip atomic.Int64
	UnreachableGroups                                                  atomic.Int64
	Unreachable                                                        atomic.Bool
}

func (c *Counters) stats(l fleet.LedgerStats, ahead time.Duration) fleet.ExchangeStats {
	return fleet.ExchangeStats{
		LedgerStats: l,
		Exchanges:   c.Exchanges.Load(), Failures: c.Failures.Load(),
		Sent: c.Sent.Load(), Received: c.Received.Load(), Malformed: c.Malformed.Load(), Foreign: c.Foreign.Load(),
		RoundTrip: time.Duration(c.RoundTrip.Load()), Unreachable: c.Unreachable.Load(),
		UnreachableGroups: int(c.UnreachableGroups.Load()),
		ClockAhead:        ahead,
	}
}
