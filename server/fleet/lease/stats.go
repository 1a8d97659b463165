package lease

import "sync/atomic"

// Stats are the figures of a Limiter since its start.
type Stats struct {
	// Keys is the number of keys with units, or with units recently.
	Keys int64
	// Calls is the number of calls of the source by any method. Failures is the number of calls that failed.
	Calls, Failures int64
	// Grants is the number of grants. Granted is the number of their units. Refusals is the number of requests for units
	// that the source refused. Renewals is the number of requests that were made before a grant ended.
	Grants, Granted, Refusals, Renewals int64
	// Returned is the number of returned units. Expired is the number of units that were neither used nor returned.
	Returned, Expired int64
	// Denied is the number of checks that were denied without a separate store call. Crowded is the number of checks that
	// were denied because too many callers were waiting; Denied includes them.
	Denied, Crowded int64
	// Waits is the number of checks that waited for units.
	Waits int64
	// Exact is the number of checks that were decided by a separate call of the source. Degraded is the number of checks
	// that were decided by a policy because the source had failed.
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
