// Package memstore is a headgate.Limiter that counts in this process: sharded, without pointers, and bounded.
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
// With token-bucket, gcra, leaky-bucket and fixed-window, a key takes 16 bytes in an open-addressed table with a load
// of 42 to 84%: 19 to 38 bytes per key. That requires a limit of at most 4 million units that refills within about two
// days, or 26 hours for a staggered window. A key takes a record of at least 64 bytes, plus 11 to 22 bytes of index, if
// its limit is larger or of another algorithm, if count and period have few common divisors, or after a large Charge.
//
// The table has no pointers, so the garbage collector has nothing to scan. It grows by splitting one segment of 512
// entries at a time, while other segments stay usable. Dead keys are swept: an idle token bucket is like a new one, so
// dropping it loses nothing.
//
// # When memory is full
//
// Options.MaxBytes is never exceeded. When it is reached, a new key replaces dead keys. If there are none, it replaces
// keys in the same segment that drain soonest: these start again like new keys, and count as Evictions. A key that was
// denied since it last drained is never evicted. If every key nearby was denied, the new key is refused with
// headgate.ErrFull and counts as a Refusal; [headgate.Bound.Allow] lets it pass unless its policy is Closed.
//
// # Keys
//
// A key is known by a 64-bit hash with a random seed per process, so that clients cannot choose colliding keys. Among
// 100 million keys about 0.004 pairs share a hash, and with it a counter. A goroutine may be interrupted between
// reading a counter and swapping it. If the counter's slot belongs to another key by then, the swap fails and the
// decision starts again; with a probability of at most 1 in 2^32 the swap succeeds and charges that other key.
//
// # Time
//
// The default clock is the system's monotonic clock, set once to the wall clock: a step of the wall clock changes
// nothing, and windows are aligned to the wall clock at the time of New.
package memstore
