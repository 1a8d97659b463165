// Package headgate defines the types of rate limiting that all other packages share.
//
// A [Limit] is a rule such as "10/s burst 20". A [Check] asks for some units of a limit on behalf of a key, and a
// [Limiter] answers with a [Decision]. Package memstore is a Limiter for one process:
//
//	store, err := memstore.New(memstore.Options{})
//	...
//	d, err := store.Take(ctx, headgate.Check{Key: "search/alice", Limit: headgate.PerSecond(10), Cost: 1})
//	if err == nil && !d.Allowed {
//		// retry after d.RetryAfter
//	}
//
// # Which algorithm
//
// All algorithms have the same interface, so one can be exchanged for another by changing a word of the limit.
//
//	name             state of a key   guarantee                                           choose it for
//	token-bucket     2 words          never more than burst + rate·t, exactly             almost everything; the default
//	gcra             2 words          the same decisions, by virtual scheduling           compatibility with redis-cell
//	leaky-bucket     2 words          the same, and Delay spaces requests evenly          a backend that needs a steady flow
//	fixed-window     2 words          Count per window; twice that across a boundary      quotas by the clock (an hour, a day)
//	sliding-window   3 words          two counters; almost always decides like the log    large windows, when a burst at a
//	                                  while clients are far below their limit; a client   boundary would hurt
//	                                  that tries can get 2·Count in a Period
//	sliding-buckets  N+2 words        at most Count in any Period·(N−1)/N; over-admits    the same, with the error chosen by N
//	                                  at most the units of one bucket
//	sliding-log      ≤ 4·Count+3      exact for every window                              low counts that must be exact
//	concurrency      ≤ 3·Count        at most Count in flight; a crashed holder's slot    slow calls, connections, jobs
//	                                  is free after the TTL
//
// Package memstore stores the two words of a common limit in 8 bytes. See docs/algorithms.md for worked examples.
//
// # Guarantees of every Limiter
//
// A denial is a value; an error means that something broke or that the check was invalid. Neither consumes anything.
// Time is counted in whole microseconds and rates are exact fractions, so nothing drifts. A clock that steps back, or
// callers that arrive out of order, never add capacity. A denied check passes after RetryAfter if nothing else is taken
// meanwhile, and not a microsecond earlier (for concurrency this is an estimate).
//
// A Limiter stores what a key has consumed, not what is left. A raised limit therefore helps at once, even a key that
// was exhausted, and a lowered limit keeps what was consumed.
package headgate
