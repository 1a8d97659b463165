// Package pacer is blocking, in-process pacing: smooth rates with bursts or a warm-up, a leaky-bucket queue, a semaphore
// with periodic refresh and a producer/consumer token queue, all of which obey their context.
//
// A pacer makes its callers wait, where a limiter turns them away. Use one on your own side of an interface: to call an
// API no faster than it allows, to spread a batch over an hour, to go easy on a service that has just started.
//
// # Which pacer
//
//	I want                                              use           a caller waits for
//	a steady rate, with bursts after a quiet time       Bursty        what those before it took
//	a steady rate, evenly spaced                        Bursty        the same; set MaxBurst to NoBurst
//	a rate that starts low and rises under load         WarmingUp     what those before it took
//	a constant outflow and a bound on what is waiting   Queue         its turn; full is an error at once
//	to hand work over and have it run at a steady rate  Queue.Submit  nothing
//	"100 per minute" as a quota of a fixed period       Allowance     a period with enough left
//	never more than the capacity at once                TokenQueue    its own tokens to be made
//
// Bursty is the one to start with. It lets a large request through at once when idle and makes the next caller wait for
// it; if a large request must wait for its own permits instead, use TokenQueue.
//
// # What they have in common
//
// Each is a [Pacer]: Acquire waits, TryAcquire waits if it is not for too long, and Reserve takes a time for later.
//
// Callers are served in the order in which they come, and one who wants much is not overtaken by those who want little.
// A context whose deadline comes before the turn would is an error at once ([*DeadlineError]). A caller who gives up has
// taken nothing and those behind it move up. A nil context, a count below 1, and a count that can never pass are errors
// as well, and change nothing.
//
// Rates are exact: time is kept in nanoseconds and fractions of them, so that 300 per second is neither 299.9 nor
// 300.1, after ten million permits as after ten. A wait is rounded up to the nanosecond, and what it was rounded by is
// not lost. That is the schedule. Callers who wake up late, because the machine was busy, do not slow down those behind
// them, and those who are overdue by then go together.
//
// All of it is in one process and forgets everything when that ends. For limits that several processes share, see the
// limiters of the packages around this one.
package pacer
