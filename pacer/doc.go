// Package pacer delays callers in one process: smooth rates with bursts or a warm-up, a leaky-bucket queue, a semaphore
// with periodic refresh and a producer/consumer token queue, all of which respect their context.
//
//	calls, err := pacer.NewBursty(pacer.BurstyOptions{Rate: pacer.PerSecond(10)})
//	if err != nil {
//		return err
//	}
//	if _, err := calls.Acquire(ctx, 1); err != nil { // waits
//		return err
//	}
//	return send()
//
// A pacer makes its callers wait, where a limiter denies them. Use one in a client: to call an API no faster than it
// allows, to spread a batch over an hour, or to send few requests to a service that has just started.
//
// # Which pacer
//
//	need                                                use           a caller waits for
//	a steady rate, with bursts after idle time          Bursty        the permits that earlier callers took
//	a steady rate, evenly spaced                        Bursty        the same; set MaxBurst to NoBurst
//	a rate that starts low and rises under load         WarmingUp     the permits that earlier callers took
//	a constant outflow and a bounded queue              Queue         its turn; a full queue is an error at once
//	to hand work over and have it run at a steady rate  Queue.Submit  nothing
//	"100 per minute" as a quota of a fixed period       Allowance     the next period with enough permits
//	never more than the capacity at once                TokenQueue    its own tokens
//
// Start with Bursty. It lets a large request through at once when idle and makes the next caller wait for it; if a
// large request must wait for its own permits instead, use TokenQueue.
//
// # Common behavior
//
// Each is a [Pacer]: Acquire waits, TryAcquire waits up to a timeout, and Reserve takes a later time.
//
// Callers are served in order of arrival, and one that wants many permits is not overtaken by others that want few. A
// context whose deadline comes before the caller's time is an error at once ([*DeadlineError]). A caller that gives up
// has taken nothing and callers behind it move up. A nil context, a count below 1, and a count that can never pass are
// errors as well, and change nothing.
//
// Rates are exact: times are nanoseconds and fractions of them, so that 300 per second is neither 299.9 nor 300.1, even
// after ten million permits. A wait is rounded up to the nanosecond, and the schedule keeps the exact time. Callers
// that wake up late, because the machine was busy, do not slow down callers behind them, and overdue callers pass
// together.
//
// All state is in one process and is lost when it ends. For limits that several processes share, see package headgate.
package pacer
