// Package limittest is the conformance suite that every [headgate.Limiter] must pass.
//
//	func TestConformance(t *testing.T) {
//		limittest.Run(t, func(t testing.TB, now func() time.Time) headgate.Limiter {
//			store := memstore.MustNew(memstore.Options{Now: now})
//			t.Cleanup(func() { store.Close() })
//			return store
//		})
//	}
//
// The suite passes a virtual clock to the limiter, and sets that clock forward and back. It has three parts. The first
// replays the scripts of package algorithm, which define the decisions of each algorithm. The second makes long
// sequences of random calls and checks invariants: a limiter never admits more than the limit, RetryAfter is exact to a
// microsecond, TakeAll takes all or none, and denials and peeks change nothing. The third checks such invariants with
// calls from many goroutines. All random choices derive from Options.Seed, so that failures are reproducible.
//
// # Testing a Limiter of your own
//
// Call [Run] with a function that creates your limiter. The limiter must read the time only from now, and count in
// whole microseconds. It must return the errors of headgate.Check.Validate, headgate.Check.ValidatePeek,
// headgate.ValidateRefund and headgate.ValidateCombination for invalid input. [RunMisuse] checks that mistakes of
// callers, such as a use after Close, have safe results.
//
// # Testing an algorithm of your own
//
// Implement algorithm.Custom, and register it in memstore.Options.Algorithms. [RunAlgorithm] checks that the methods
// keep the promises of algorithm.Custom in random histories. Then write examples of decisions as a script, which
// [RunScript] replays on a store with the algorithm. In a script, headgate.FirstCustom is called custom-0, the next
// number custom-1, and so on:
//
//	case a window begins with the first request
//	limit 2/m custom-0
//	at 30s take alice 2 -> allow remaining=0 reset=1m
//	at 89s take alice 1 -> deny retry=1s
//	at 90s take alice 1 -> allow remaining=1
//
// # Testing code that is limited
//
// [Allowing] and [Denying] return limiters that always make the same decision. A [Recorder] records the calls of a
// limiter. With a [Clock], a test can set the time of a memstore.Store. In a bubble of testing/synctest, a store needs
// no Clock, because it uses the clock of the bubble.
package limittest
