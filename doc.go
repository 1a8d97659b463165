// Package headgate defines the rate limiting types that all other packages use.
//
// A [Limit] is a rule such as "10/s burst 20". A [Limiter] stores how much each key has consumed: memstore.Store stores
// it in this process, redisstore.Store in Redis. [Bind] returns a [Bound], which applies one limit to every key:
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
// A limit names its algorithm, as in "10/s gcra".
//
//	name             guarantee                                        choose it for
//	token-bucket     at most burst + rate·t units in any time t       almost everything; the default
//	gcra             the decisions of token-bucket                    compatibility with redis-cell
//	leaky-bucket     the same, and Delay spaces requests evenly       a backend that needs a steady flow
//	fixed-window     Count per window; twice that at a boundary       quotas by the clock (an hour, a day)
//	sliding-window   an estimate from the counts of two windows       large windows without the double burst
//	sliding-buckets  over-admits at most the units of one bucket      large windows; Buckets sets the maximum error
//	sliding-log      exact for every window; memory grows with Count  low counts that must be exact
//	concurrency      at most Count in flight                          slow calls, connections, jobs
//
// See docs/algorithms.md for worked examples and memory use.
//
// # Guarantees of every Limiter
//
// A denial is a value. An error means that something broke or that the check was invalid. Denials and errors consume
// nothing, with two exceptions: units may have been taken after ErrOverloaded, or if a server responded too late.
//
// Time is counted in whole microseconds, and rates are exact fractions. Capacity never grows because a clock steps back
// or because calls arrive out of order. If nothing else is taken meanwhile, a denied check passes after RetryAfter and
// not earlier; under a concurrency limit, RetryAfter is an estimate.
//
// A key whose limit changes keeps its consumption, and can use a raised limit at once.
package headgate
