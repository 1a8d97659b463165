// Package algorithm implements the rate limiting algorithms as pure functions: each takes a state, a time and a cost,
// and returns a decision and the next state.
//
//	plan, err := algorithm.NewPlan(headgate.PerSecond(10))
//	if err != nil {
//		return err
//	}
//	var alice algorithm.State
//	for now := int64(0); now < 3_000_000; now += 50_000 {
//		var d headgate.Decision
//		alice, d = plan.Take(alice, now, 1, 0) // only concurrency uses the lease, here 0
//		fmt.Println(d.Allowed, d.Remaining)
//	}
//
// A [Plan] is a validated limit together with the numbers that are derived from it. Its methods are the steps of the
// algorithm: Decide, Take, Charge, Give and so on. A store keeps one [State] for each key. It passes the state and the
// time to a step, and stores the state that the step returns. A step may overwrite the memory of the state that it is
// given. The store does its own locking. No function reads a clock or uses floating point.
//
// # Time
//
// A time is a whole number of microseconds since 1970. Every state holds the latest time at which it was changed. If
// the time of a step is earlier than that, the step admits no more than it would at the latest time.
//
// # Exactness
//
// A state holds whole units and the times at which they were consumed. It never holds a product of a rate and a time,
// because the rate of the limit may change. Steps compute products of units and times with 128 bits. Only
// sliding-window rounds: it rounds the part of the previous window that still counts to the nearest unit. Counts are at
// most 2^40 and periods less than 2^45 µs. Within these bounds Lua, whose numbers have 53 bits, computes the same
// results by long division.
//
// # Adding an algorithm
//
// An algorithm needs a Go file, a Lua file and a case file in testdata, all named after the algorithm, and one line in
// the list of package headgate: see CONTRIBUTING.md.
//
// # Lua scripts
//
// [Lua] returns the steps of an algorithm as a Redis script. The script makes the same decisions as the Go steps and
// changes the state in the same way. It replies with the state before the change. The caller passes this state to the
// Go steps to compute Remaining, RetryAfter and the other fields of the decision.
package algorithm
