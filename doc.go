// Package headgate is the language of rate limiting: what a limit is, what is asked of it, and what it answers.
//
// A [Limit] says how much may pass ("10/s burst 20"), a [Check] asks for some of it on behalf of a key, and a
// [Limiter] answers with a [Decision]. Package memstore is a Limiter for one process:
//
//	store, err := memstore.New(memstore.Options{})
//	...
//	d, err := store.Take(ctx, headgate.Check{Key: "search/alice", Limit: headgate.PerSecond(10), Cost: 1})
//	if err == nil && !d.Allowed {
//		// come back in d.RetryAfter
//	}
//
// # Which algorithm
//
// All algorithms answer the same questions, so one can be exchanged for another by changing a word of the limit.
//
//	name             state a key      what it promises                                    choose it for
//	token-bucket     2 words          never more than burst + rate·t, exactly             almost everything; the default
//	gcra             2 words          the same decisions, by virtual scheduling           what redis-cell users know
//	leaky-bucket     2 words          the same, and Delay spaces what passes evenly       a backend that wants a steady flow
//	fixed-window     2 words          Count per window; twice that across a border        quotas by the clock (an hour, a day)
//	sliding-window   3 words          two counters; hardly a decision differs from the    large windows, when a burst at a
//	                                  exact log while most clients are far below their    border would hurt
//	                                  limit; one who tries can get 2·Count in a Period
//	sliding-buckets  N+2 words        at most Count in any Period·(N−1)/N; errs to the    the same, with the error chosen by N
//	                                  lenient side, by what one bucket holds
//	sliding-log      ≤ 4·Count+3      exact for every window                              low counts that must be exact
//	concurrency      ≤ 3·Count        at most Count in flight; a holder that dies frees   slow calls, connections, jobs
//	                                  its place after TTL
//
// Package memstore keeps the two words of a common limit in 8 bytes. See docs/algorithms.md for worked numbers.
//
// # What every Limiter promises
//
// A denial is a value, and takes nothing; an error means that something broke or that the question was wrong, and it too
// takes nothing. Time is counted in whole microseconds and rates are exact fractions, so nothing drifts. A clock that
// steps back, or callers that arrive out of order, never add capacity. A check that was denied passes after RetryAfter
// when nobody else takes anything meanwhile, and not a microsecond earlier (for concurrency this is an estimate).
//
// What is remembered under a key is what was consumed, not what is left. A limit that is raised therefore helps at
// once, even a key that had been exhausted, and one that is lowered keeps what was consumed.
package headgate
