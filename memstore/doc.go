// Package memstore is the store for one process: sharded, without pointers, and bounded.
//
//	store, err := memstore.New(memstore.Options{})
//	if err != nil { ... }
//	defer store.Close()
//	perUser, err := store.Bind(headgate.PerSecond(10))
//	if err != nil { ... }
//	if !perUser.Allow(user) {
//		// too many requests
//	}
//
// # Memory
//
// A key of token-bucket, gcra, leaky-bucket and fixed-window takes 16 bytes in an open-addressed table that is 42 to 84 %
// full: 19 to 38 bytes a key. Its limit must be one of up to 4 million units that refill within two days, or about that, and a
// staggered window at most 26 hours long. A larger one, a debt, a count that fits its period badly, and every key of the
// other algorithms takes a record of at least 64 bytes and about 32 for finding it.
//
// The table has no pointers, so the garbage collector has nothing to scan. It grows by splitting one segment of 512
// entries at a time; no other waits for that. What is dead is swept: an idle token bucket is as good as a new one, so
// forgetting it loses nothing.
//
// # When memory is full
//
// Options.MaxBytes is never exceeded. A new key then takes the place of dead ones, else of those in its neighbourhood that
// have the least left to remember: these start again, as if they had not been seen, and count as Evictions. A key that
// was denied since it last drained is never evicted, even if its latest decision was an allow. If no other key is there,
// the new key is refused with headgate.ErrFull and counts as a Refusal; [Bound.Allow] lets it pass.
//
// # Keys
//
// A key is known by a 64-bit hash, seeded again in every process so that nobody can choose keys that collide. Among 100
// million keys about 0.004 pairs share a hash; such a pair would share a counter. A decision that is interrupted between
// its two instructions on a counter, for so long that the counter's place goes to another key, begins again; with a chance of
// at most 1 in 2^32 it does not notice, and is charged to that key.
//
// # Time
//
// By default the clock is the system's monotonic one, set once to the wall clock: a step of the wall clock neither adds
// nor takes anything, and windows begin on the full period as the wall clock stood when the store was made.
package memstore
