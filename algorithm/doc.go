// Package algorithm implements the algorithms as pure functions: each takes a state, a time and a cost, and returns a
// decision and the next state.
//
//	plan, err := algorithm.NewPlan(headgate.PerSecond(10))
//	if err != nil {
//		return err
//	}
//	var alice algorithm.State
//	for now := int64(0); now < 3_000_000; now += 50_000 {
//		var d headgate.Decision
//		alice, d = plan.Take(alice, now, 1, 0) // no lease: only concurrency has them
//		fmt.Println(d.Allowed, d.Remaining)
//	}
//
// A [Plan] is a validated limit with its rate reduced to lowest terms. Its methods are the steps: decide, take, charge,
// give back. A store keeps one [State] for every key, passes it in with the time, and does its own locking. No
// function reads a clock or uses floating point. Steps reuse the memory of a state of fixed size.
//
// # Time
//
// Time is whole microseconds since 1970. Every state remembers the latest time it has seen. A call with an older time
// never admits more than a call at the latest time would.
//
// # Exactness
//
// A state holds the units consumed, as whole numbers, and when; never a product of limit and time. That is why a limit
// may change between two steps on one state. Steps compute products of units and time with 128 bits. The only rounding
// is the weight of a sliding-window, to the nearest unit. Counts are below 2^40 and periods below 2^45 µs, so that Lua,
// whose numbers have 53 bits, computes the same by long division.
//
// # Adding an algorithm
//
// An algorithm is one Go file, one Lua file and one case file in testdata, all found by its name, and one line in the
// list of package headgate: see CONTRIBUTING.md.
//
// # Lua scripts
//
// [Lua] returns the steps of an algorithm as a script that Redis runs. It allows, denies and changes the state exactly
// as the steps here do. The caller computes Remaining, RetryAfter and the other figures with the Go steps, from the
// state that the script found.
package algorithm
