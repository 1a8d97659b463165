// Package memstore provides a headgate.Limiter that keeps its counters in the memory of this process. Their memory is
// bounded, and the garbage collector does not scan it.
//
//	store := memstore.MustNew(memstore.Options{})
//	defer store.Close()
//	perUser := headgate.MustBind(store, headgate.PerSecond(10))
//	if !perUser.Allow(user) {
//		return errors.New("too many requests")
//	}
//
// # Memory
//
// A key with a small state takes 19 to 38 bytes: a slot of 16 bytes in an open-addressed table that is 42 to 84% full.
// The state is small with token-bucket, gcra, leaky-bucket and fixed-window, if the limit has at most 4 million units
// and refills within about two days, or 26 hours for a staggered window. Other keys take a record of at least 64 bytes,
// plus 11 to 22 bytes of index. A key also needs a record if the count and the period of its limit have few common
// divisors, or after a large Charge.
//
// The table has no pointers, so the garbage collector has nothing to scan. It grows by splitting one segment of 512
// slots at a time, while other segments stay usable. A key is dead when its state is like that of a new key, for
// example when its token bucket is full again. A periodic sweep drops dead keys.
//
// # When memory is full
//
// The counters never take more than Options.MaxBytes. When that is reached, a new key replaces dead keys. If there are
// none, it replaces the keys of the same segment that would be dead soonest. These are counted in Stats.Evictions, and
// start again like new keys. A key that was denied is not evicted until it is dead. If the segment has only such keys,
// the new key is refused with headgate.ErrFull and counted in Stats.Refusals. [headgate.Bound.Allow] then returns true
// unless its policy is Closed.
//
// # Keys
//
// A table identifies a key by 60 bits of a hash with a random seed, so that clients cannot choose keys that collide.
// Keys that share these bits share a counter: about 0.004 such pairs are expected among 100 million keys.
//
// A decision reads a counter and replaces it by a compare-and-swap. If the slot has been given to another key in
// between, the swap fails and the decision is made again. With a probability of at most 1 in 2^32 it succeeds, and the
// other key is charged.
//
// # Time
//
// The default clock starts at the wall clock in New, and then follows the system's monotonic clock. So later changes of
// the wall clock have no effect.
package memstore
