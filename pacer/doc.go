// Package pacer makes callers wait so that they do not exceed a rate. All pacers work in one process and respect their
// callers' contexts.
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
// A limiter denies requests; a pacer delays them. Use a pacer in a client: to call an API no faster than it allows, to
// spread a batch over an hour, or to send few requests to a service that has just started.
//
// # Which pacer
//
//	need                                                use           a caller waits for
//	a steady rate, with bursts after idle time          Bursty        the permits that earlier callers took
//	a steady rate, evenly spaced                        Bursty        the same; set MaxBurst to NoBurst
//	a rate that starts low and rises under load         WarmingUp     the permits that earlier callers took
//	a constant outflow and a bounded queue              Queue         its turn; a full queue is an error at once
//	to run functions in the background at a steady rate Queue.Submit  nothing
//	"100 per minute" as a quota of a fixed period       Allowance     the next period with enough permits
//	never more than the capacity at once                TokenQueue    its own tokens
//
// Start with Bursty. If it is idle, a large request passes at once and the next caller waits for it. If a large request
// must wait for its own permits instead, use TokenQueue.
//
// # Common behavior
//
// All of these types implement [Pacer]: Acquire waits, TryAcquire waits up to a timeout, and Reserve takes permits for
// a later time.
//
// Callers are served in order of arrival. A caller that wants many permits is not overtaken by callers that want few.
// If the deadline of the context comes before a caller's time, Acquire returns a [*DeadlineError] at once. A caller
// that gives up has taken nothing, and callers behind it move up. A nil context, a count below 1 and a count that can
// never pass are errors, too, and change nothing.
//
// Rates are exact. A pacer computes with fractions of nanoseconds, so 300 per second is neither 299.9 nor 300.1, even
// after ten million permits. Waits are rounded up to the nanosecond, but rounding does not accumulate. If the machine
// is busy and callers wake up late, callers behind them are not delayed further: all callers whose time has passed are
// admitted together.
//
// All state is in one process and is lost when it ends. For limits that several processes share, see package headgate.
package pacer
