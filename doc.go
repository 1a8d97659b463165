// Package headgate defines the rate limiting types that all other packages use.
//
// A [Limit] is a rule such as "10/s burst 20". A [Limiter] keeps a count for each key: package memstore in this
// process, package redisstore in Redis. [Bind] returns a [Bound], which applies one limit to keys:
//
//	store := memstore.MustNew(memstore.Options{})
//	defer store.Close()
//	perUser := headgate.MustBind(store, headgate.PerSecond(10))
//	if !perUser.Allow(user) {
//		http.Error(w, "too many requests", http.StatusTooManyRequests)
//		return
//	}
//
// # Which algorithm
//
// The name of an algorithm in a limit, as in "10/s gcra", selects it. All algorithms have the same interface.
//
//	name             guarantee                                        choose it for
//	token-bucket     never more than burst + rate·t, exactly          almost everything; the default
//	gcra             the same decisions, by virtual scheduling        compatibility with redis-cell
//	leaky-bucket     the same, and Delay spaces requests evenly       a backend that needs a steady flow
//	fixed-window     Count per window; twice that at a boundary       quotas by the clock (an hour, a day)
//	sliding-window   an estimate from the counts of two windows       large windows without the double burst
//	sliding-buckets  over-admits at most the units of one bucket      large windows; Buckets sets the maximum error
//	sliding-log      exact for every window; memory grows with Count  low counts that must be exact
//	concurrency      at most Count in flight                          slow calls, connections, jobs
//
// See docs/algorithms.md for their memory and worked examples.
//
// # Guarantees of every Limiter
//
// A denial is a value; an error means that something broke or that the check was invalid. Neither consumes anything,
// except that units may have been taken after ErrOverloaded or by a server that responds too late. Time is counted in
// whole microseconds and rates are exact fractions. A clock that steps back, or callers that arrive out of order, never
// add capacity. If nothing else is taken meanwhile, a denied check passes after RetryAfter and not earlier; for
// concurrency it is an estimate.
//
// A Limiter stores what a key has consumed, not what is left. So a raised limit helps at once, and a lowered one keeps
// what was consumed.
package headgate
