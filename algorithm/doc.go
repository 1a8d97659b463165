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
// algorithm: Decide, Take, Charge, Give and so on. A store keeps one [State] for each key, passes it to a step together
// with the time, and stores the state that the step returns. The store does its own locking. No function reads a clock
// or uses floating point. A step may reuse the memory of the state that it was given.
//
// # Time
//
// A time is a whole number of microseconds since 1970. Every state holds the latest time at which it was changed. A
// step with an earlier time never admits more than a step at that latest time would.
//
// # Exactness
//
// A state holds whole units and the times at which they were consumed, never a product of a rate and a time. So the
// limit may change between two steps on one state. Steps compute products of units and times with 128 bits. Only
// sliding-window rounds: the part of the previous window that still counts is rounded to the nearest unit. Counts are
// at most 2^40 and periods less than 2^45 µs, so that Lua, whose numbers have 53 bits, can compute the same results by
// long division.
//
// # Adding an algorithm
//
// An algorithm needs a Go file, a Lua file and a case file in testdata, all named after the algorithm, and one line in
// the list of package headgate: see CONTRIBUTING.md.
//
// # Lua scripts
//
// [Lua] returns the steps of an algorithm as a Redis script. The script makes the same decisions as the Go steps and
// changes the state in the same way. It returns the state that it found. From this state the caller computes Remaining,
// RetryAfter and the other fields of a decision with the Go steps.
package algorithm
