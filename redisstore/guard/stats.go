package guard

import (
	"sync/atomic"

	"github.com/headgate/headgate"
)

// Stats are figures of a guard since it was created.
type Stats struct {
	// Calls is the number of calls of the store, without probes.
	Calls int64
	// Failures is how many calls failed, and Timeouts how many of these because of the deadline.
	Failures, Timeouts int64
	// Probes is the number of probes of shards, and ProbesFailed how many of them failed.
	Probes, ProbesFailed int64
	// Open, Closed and Local are how many decisions each policy made. Every decided check of a TakeAll counts.
	Open, Closed, Local int64
	// LocalFailures is how many checks with the policy Local were allowed because the local limiter failed.
	LocalFailures int64
	// CacheHits is how many requests the deny cache denied, and Shared how many the response to another caller denied.
	CacheHits, Shared int64
	// Waits is how many requests waited for the response to another caller, or for a denial to expire, and Ungated how
	// many went to the store because that took too long or because there was no room to wait.
	Waits, Ungated int64
	// Queued is how many requests were queued because enough others were being decided, and Overloaded how many were
	// refused with headgate.ErrOverloaded.
	Queued, Overloaded int64
	// ChargesDropped is how many charges were lost, and GivesDropped how many units could not be given back.
	ChargesDropped, GivesDropped int64
	// Refunds is how many checks of a TakeAll were refunded because another one was denied, and RefundsDropped how many
	// could not be.
	Refunds, RefundsDropped int64
	// EventsDropped is how many events were dropped because OnEvent was too slow.
	EventsDropped int64
}

// counters are the figures behind Stats.
type counters struct {
	calls, failures, timeouts    atomic.Int64
	probes, probesFailed         atomic.Int64
	degraded                     [headgate.Local + 1]atomic.Int64
	localFailures                atomic.Int64
	cacheHits, shared            atomic.Int64
	waits, ungated               atomic.Int64
	queued, overloaded           atomic.Int64
	chargesDropped, givesDropped atomic.Int64
	refunds, refundsDropped      atomic.Int64
	eventsDropped                atomic.Int64
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
		CacheHits:     c.cacheHits.Load(), Shared: c.shared.Load(),
		Waits: c.waits.Load(), Ungated: c.ungated.Load(),
		Queued: c.queued.Load(), Overloaded: c.overloaded.Load(),
		ChargesDropped: c.chargesDropped.Load(), GivesDropped: c.givesDropped.Load(),
		Refunds: c.refunds.Load(), RefundsDropped: c.refundsDropped.Load(),
		EventsDropped: c.eventsDropped.Load(),
	}
}
