package guard

import (
	"sync/atomic"

	"github.com/headgate/headgate"
)

// Stats are counters since the guard was created.
type Stats struct {
	// Calls is the number of calls to the store, without probes.
	Calls int64
	// Failures is the number of calls that failed. Timeouts is the number of calls that failed because of the deadline.
	Failures, Timeouts int64
	// Probes is the number of probes of shards. ProbesFailed is the number of probes that failed.
	Probes, ProbesFailed int64
	// Open, Closed and Local are the numbers of decisions by each policy instead of the store. Each check of a TakeAll
	// counts.
	Open, Closed, Local int64
	// LocalFailures is the number of checks with the policy Local that were allowed because the local limiter failed.
	LocalFailures int64
	// CacheHits is the number of requests that the deny cache denied. SharedDenials is the number of requests that were
	// denied by the response to another caller.
	CacheHits, SharedDenials int64
	// Waits is the number of requests that waited for the response to another caller, or for a denial to expire.
	// WaitsSkipped is the number of requests that called the store themselves, because the response took too long or too
	// many requests waited for it.
	Waits, WaitsSkipped int64
	// Queued is the number of requests that were queued because as many as allowed were being decided. Overloaded is the
	// number of requests that were refused with headgate.ErrOverloaded.
	Queued, Overloaded int64
	// ChargesDropped is the number of charges that were lost. UnitsNotReturned is the number of units that could not be
	// given back.
	ChargesDropped, UnitsNotReturned int64
	// Refunds is the number of checks of a TakeAll that were refunded because another one was denied. RefundsDropped is
	// the number of checks that should have been refunded and were not.
	Refunds, RefundsDropped int64
	// EventsDropped is the number of events that were dropped because OnEvent was too slow.
	EventsDropped int64
}

// counters are the figures behind Stats.
type counters struct {
	calls, failures, timeouts        atomic.Int64
	probes, probesFailed             atomic.Int64
	degraded                         [headgate.Local + 1]atomic.Int64
	localFailures                    atomic.Int64
	cacheHits, sharedDenials         atomic.Int64
	waits, waitsSkipped              atomic.Int64
	queued, overloaded               atomic.Int64
	chargesDropped, unitsNotReturned atomic.Int64
	refunds, refundsDropped          atomic.Int64
	eventsDropped                    atomic.Int64
}

// Stats returns the figures.
func (g *Guard) Stats() Stats {
	c := &g.counters
	return Stats{
		Calls: c.calls.Load(), Failures: c.failures.Load(), Timeouts: c.timeouts.Load(),
		Probes: c.probes.Load(), ProbesFailed: c.probesFailed.Load(),
		Open:          c.degraded[headgate.Open].Load(),
		Closed:        c.degraded[headgate.Closed].Load(),
		Local:         c.degraded[headgate.Local].Load(),
		LocalFailures: c.localFailures.Load(),
		CacheHits:     c.cacheHits.Load(), SharedDenials: c.sharedDenials.Load(),
		Waits: c.waits.Load(), WaitsSkipped: c.waitsSkipped.Load(),
		Queued: c.queued.Load(), Overloaded: c.overloaded.Load(),
		ChargesDropped: c.chargesDropped.Load(), UnitsNotReturned: c.unitsNotReturned.Load(),
		Refunds: c.refunds.Load(), RefundsDropped: c.refundsDropped.Load(),
		EventsDropped: c.eventsDropped.Load(),
	}
}
