// Package limittest is the conformance suite that every [headgate.Limiter] passes.
//
//	func TestConformance(t *testing.T) {
//		limittest.Run(t, func(t testing.TB, now func() time.Time) headgate.Limiter {
//			store := memstore.MustNew(memstore.Options{Now: now})
//			t.Cleanup(func() { store.Close() })
//			return store
//		})
//	}
//
// The suite runs in virtual time: it passes a clock to the limiter, and sets that clock forward and back. It has
// three parts. Cases replay the scripts of package algorithm, which define the decisions of each algorithm.
// Properties run long random histories and check invariants: a limiter never admits more than the limit,
// RetryAfter is exact to a microsecond, TakeAll takes all or none, and denials and peeks change nothing.
// Concurrent checks do the same from many goroutines. All random choices derive from Options.Seed, so that
// failures are reproducible.
//
// # Testing a Limiter of your own
//
// Pass every method of headgate.Limiter through Run. Read the time only from now, and count in whole microseconds.
// headgate.Check.Validate, ValidatePeek, ValidateRefund and ValidateAll return the errors that the suite expects.
// [RunMisuse] checks what callers do by mistake, such as a use after Close.
//
// # Testing an algorithm of your own
//
// Implement algorithm.Custom, and register it in memstore.Options.Algorithms. [RunAlgorithm] checks that its methods
// keep the promises of algorithm.Custom, by random histories. Then write its decisions as a script, which [RunScript]
// replays on a store that has the algorithm; its comment describes the lines of a script. In a script,
// headgate.FirstCustom is custom-0, and the next numbers follow:
//
//	case a window begins with the first request
//	limit 2/m custom-0
//	at 30s take alice 2 -> allow remaining=0 reset=1m
//	at 89s take alice 1 -> deny retry=1s
//	at 90s take alice 1 -> allow remaining=1
//
// # Testing code that is limited
//
// [Allowing] and [Denying] return limiters that always make the same decision, and a [Recorder] records the calls of
// a limiter. A [Clock] sets the time of a memstore.Store; in a bubble of testing/synctest the store needs no Clock.
package limittest
