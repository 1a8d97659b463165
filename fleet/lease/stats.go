package lease

import "sync/atomic"

// Stats are a Lease's figures since it was made.
type Stats struct {
	// Keys is for how many keys units are held, or were a moment ago.
	Keys int64
	// Calls is how often the source was called, by whatever method, and Failures how often in vain.
	Calls, Failures int64
	// Grants is how often it gave units, Granted how many, and Refusals how often it had too few. Renewals is how often more
	// was asked for before the last ran out.
	Grants, Granted, Refusals, Renewals int64
	// Returned is how many units were handed back, and Expired how many were not used and not handed back.
	Returned, Expired int64
	// Denied is how many checks were denied without asking, or by the answer to another. Crowded is how many of them because
	// too many waited.
	Denied, Crowded int64
	// Waits is how many checks waited for units.
	Waits int64
	// Exact is how many checks the source was asked for one by one, and Degraded how many could not be because it had failed.
	Exact, Degraded int64
}

type counters struct {
	calls, failures                     atomic.Int64
	grants, granted, refusals, renewals atomic.Int64
	returned, expired                   atomic.Int64
	denied, crowded, waits              atomic.Int64
	exact, degraded                     atomic.Int64
}

// Stats returns the figures.
func (l *Limiter) Stats() Stats {
	c := &l.counters
	return Stats{
		Keys: l.table.count(), Calls: c.calls.Load(), Failures: c.failures.Load(),
		Grants: c.grants.Load(), Granted: c.granted.Load(), Refusals: c.refusals.Load(), Renewals: c.renewals.Load(),
		Returned: c.returned.Load(), Expired: c.expired.Load(),
		Denied: c.denied.Load(), Crowded: c.crowded.Load(), Waits: c.waits.Load(),
		Exact: c.exact.Load(), Degraded: c.degraded.Load(),
	}
}
