// Package limittest is the conformance suite that every [headgate.Limiter] passes.
//
//	func TestConformance(t *testing.T) {
//		limittest.Run(t, func(t testing.TB, now func() time.Time) headgate.Limiter {
//			return mystore.New(now)
//		})
//	}
//
// The suite lives in virtual time: it hands the limiter its clock and sets that clock as it likes, backwards too. It has
// three parts. Cases replay the scripts of package algorithm, which say what each algorithm answers and why. Properties
// draw long random histories and check what must hold whatever happens: never more than the limit, RetryAfter exact to a
// microsecond, all or none, denials and peeks that change nothing. The crowd does the same from many goroutines at once.
// Whatever is drawn comes from Options.Seed, so that a failure comes back.
//
// # Scripts
//
// A script is lines of text. What follows a # that stands first or after a space is a comment.
//
//	case the worked example: capacity 10, refill 10/s
//	limit 10/s
//	at 300ms take alice 6 -> allow remaining=4
//	at 500ms take alice 5 -> allow remaining=1
//	at 1.4s peek alice -> allow remaining=10 reset=0s
//
// A case begins with nothing consumed, at 2026-01-01T00:00:00Z, which every period that divides a day divides too. Its
// lines are:
//
//	limit LIMIT
//	limit NAME = LIMIT
//
// The limit of the steps that follow, as [headgate.ParseLimit] reads it; or one that steps name with "under NAME". A
// second one replaces the first: that is how a limit changes in the midst of a case.
//
//	at TIME take CHECK -> OUTCOME
//	at TIME charge CHECK -> OUTCOME
//	at TIME peek KEY [under NAME] -> OUTCOME
//	at TIME takeall CHECK and CHECK … -> OUTCOME and OUTCOME …
//	at TIME give KEY COST of RECEIPT [under NAME] [-> error=NAME]
//	at TIME renew KEY COST of RECEIPT [under NAME] -> allow|deny|error=NAME
//	at TIME reset KEY [-> error=NAME]
//
// A TIME is since the beginning of the case: a duration as Go writes it, or several added and subtracted, as in 1s-1us.
// Times may go back. A CHECK is KEY COST [under NAME] [as RECEIPT]; the receipt of what was taken can be given back under
// that name. An OUTCOME is error=NAME or
//
//	allow|deny [remaining=N] [retry=TIME|never] [reset=TIME] [delay=TIME] [limit=N] [units=N]
//
// and what it does not mention is not compared, except for what goes without saying: the limit's capacity, no retry when
// allowed, some when denied, a receipt for what was taken and none for what was not. Units are those of the receipt. The
// names of errors are invalid-check, invalid-limit and unsupported.
package limittest
