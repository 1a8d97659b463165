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
// The suite runs in virtual time: it passes a clock to the limiter and sets that clock freely, also back. It has three
// parts. Cases replay the scripts of package algorithm, which define the decisions of each algorithm. Properties run
// long random histories and check invariants: never more than the limit, RetryAfter exact to a microsecond, all or
// none, denials and peeks that change nothing. Concurrent checks do the same from many goroutines. All random choices
// derive from Options.Seed, so that failures are reproducible.
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
// replays on a store that has the algorithm. In a script, headgate.FirstCustom is custom-0, and the next numbers
// follow:
//
//	case a window begins with the first request
//	limit 2/m custom-0
//	at 30s take alice 2 -> allow remaining=0 reset=1m
//	at 89s take alice 1 -> deny retry=1s
//	at 90s take alice 1 -> allow remaining=1
//
// # Testing code that is limited
//
// [Allowing] and [Denying] return limiters that always decide alike, and a [Recorder] records what was asked. A [Clock]
// sets the time of a memstore.Store; in a bubble of testing/synctest the store needs none.
//
// # Scripts
//
// A script is lines of text. A # at the beginning of a line or after a space begins a comment.
//
//	case the worked example: capacity 10, refill 10/s
//	limit 10/s
//	at 300ms take alice 6 -> allow remaining=4
//	at 500ms take alice 5 -> allow remaining=1
//	at 1.4s peek alice -> allow remaining=10 reset=0s
//
// A case begins with nothing consumed, at 2026-01-01T00:00:00Z, which is a multiple of every period that divides a day.
// Its lines are:
//
//	limit LIMIT
//	limit NAME = LIMIT
//
// The limit of the following steps, as [headgate.ParseLimit] parses it; or one that steps refer to with "under NAME". A
// second one replaces the first: the limit changes.
//
//	at TIME take CHECK -> OUTCOME
//	at TIME charge CHECK -> OUTCOME
//	at TIME peek KEY [under NAME] -> OUTCOME
//	at TIME takeall CHECK and CHECK … -> OUTCOME and OUTCOME …
//	at TIME give KEY COST of RECEIPT [under NAME] [-> error=NAME]
//	at TIME renew KEY COST of RECEIPT [under NAME] -> allow|deny|error=NAME
//	at TIME reset KEY [-> error=NAME]
//
// A TIME is relative to the beginning of the case: a Go duration, or several added and subtracted, as in 1s-1us. Times
// may go back. A CHECK is KEY COST [under NAME] [as RECEIPT]; the receipt can be refunded under that name. An OUTCOME
// is error=NAME or
//
//	allow|deny [remaining=N] [retry=TIME|never] [reset=TIME] [delay=TIME] [limit=N] [units=N]
//
// and other fields are not compared, except for the obvious: the limit's capacity, no retry if allowed, some if denied,
// a receipt for taken units and none otherwise. Units are those of the receipt. The names of errors are invalid-check,
// invalid-limit and unsupported.
package limittest
