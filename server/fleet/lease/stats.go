package lease

import "sync/atomic"

// Stats are the figures of a Limiter since its start.
type Stats struct {
	// Keys is the number of keys with units, or with units recently.
	Keys int64
	// Calls counts calls of the source by any method, and Failures those that failed.
	Calls, Failures int64
	// Grants counts grants, Granted their units, Refusals refused requests, and Renewals requests before a grant ended.
	Grants, Granted, Refusals, Renewals int64
	// Returned counts returned units, and Expired units that were neither used nor returned.
	Returned, Expired int64
	// Denied counts checks denied without a call of their own, and Crowded those among them because too many waited.
	Denied, Crowded int64
	// Waits counts checks that waited for units.
	Waits int64
	// Exact counts checks for which the source was called alone, and Degraded those for which it had failed.
	Exact, Degraded int64
}

type counters struct {
	calls, failures                     atomic.Int64
	grants, granted, refusals, renewals atomic.Int64
	returned, expired                   atomic.Int64
	denied, crowded, waits              atomic.Int64
	exact, degraded                     atomic.Int64
}

// Stats returns the current figures.
func (l *Limiter) Stats() Stats {
	c := &l.counts
	return Stats{
		Keys: l.table.count(), Calls: c.calls.Load(), Failures: c.failures.Load(),
		Grants: c.grants.Load(), Granted: c.granted.Load(), Refusals: c.refusals.Load(), Renewals: c.renewals.Load(),
		Returned: c.returned.Load(), Expired: c.expired.Load(),
		Denied: c.denied.Load(), Crowded: c.crowded.Load(), Waits: c.waits.Load(),
		Exact: c.exact.Load(), Degraded: c.degraded.Load(),
	}
}
