// Package guard protects an engine from a store that can fail. It bounds the time of calls, stops calling a store that
// does not respond, decides by policy meanwhile, and remembers denials.
//
//	g, err := guard.New(redis, guard.Options{Nodes: func() int { return 3 }})
//	if err != nil {
//		return headgate.Decision{}, err
//	}
//	defer g.Close()
//	perUser := headgate.MustBind(g, headgate.PerSecond(10)).WithPolicy(headgate.Local)
//	return perUser.Take(ctx, "search/alice", 1)
//
// A [Guard] is a [headgate.Limiter] around another one. While the store works, decisions are the store's.
//
// # Deadline
//
// A call of the store ends after Options.Deadline, or within a millisecond of the caller's context if that is sooner. A
// TakeAll over several shards has one deadline for each. A call that timed out is never sent again, since it may have
// counted. The end of the caller's context and errors of the caller are not failures of the store, and neither is a
// refusal to decide one check: headgate.ErrFull, or an error with a method Refused() bool that returns true. The policy
// decides such a check. If the store implements [Traffic], time in which this process is too busy to send a call or to
// read its response does not count.
//
// # Overload
//
// Overload is not an outage. Between 32 and 900 decisions of a shard are active at once, depending on how quick its
// calls are. Other requests wait in a queue for up to eight deadlines, and their calls have five deadlines. A request
// that waits longer, or finds 16384 others in the queue, gets [headgate.ErrOverloaded] whatever its policy: 503 in
// HTTP. Time in which this process did not run at all, because it or its machine was stopped, is not overload: it is
// added, once, to the deadlines of waits and calls.
//
// # Circuits
//
// After 5 failures in a row, or if half of at least 20 calls within 2 s failed, the circuit opens: policies decide at
// once, and only a goroutine of the guard probes the store, after 100 ms, then every 200 ms for 10 s, then twice a
// second. When the store responds, the circuit closes. The store may be unreachable from the beginning. A [Sharded]
// store has a circuit for each shard. A [Prober] is probed with Probe, another store with Peek.
//
// # Policies
//
// Check.OnFailure decides a check whose shard is unavailable or failed. Such a decision is Degraded, and counted in
// [Stats]. A cost above the limit's capacity is denied by every policy.
//
//	Open    allowed. Remaining is the capacity minus the cost.
//	Closed  denied. RetryAfter is an estimate: the time to the next probe, or 100 ms if the circuit is closed.
//	Local   decided by Options.Local under Check.Safe or, if that is nil, under this node's share: Count and Burst
//	        divided by Options.Nodes, at least 1.
//
// Receipts of Open have an At of -1, and giving them back does nothing. Those of Local have a lower At, and are given
// back to Options.Local. So a guard cannot guard another guard. Charge follows the policies; under Open and Closed the
// units are lost and counted. Give and Reset fail with an error that wraps [ErrUnavailable].
//
// # Denials
//
// A denial is remembered until its RetryAfter has passed, counted from the call, and at most for Options.DenyCache. It
// holds for the same key, owner, limit and cost, and for larger costs where the response shows when they would pass. A
// refund or reset on another node shows within that time; a Charge, Give or Reset through this guard ends the denial at
// once. Denials of concurrency limits and split keys, whose RetryAfter is an estimate, are remembered for a hundredth
// of DenyCache. Degraded decisions are not remembered.
//
// Callers of one key wait for each other: no more units are in flight than could pass, plus one call to find out. The
// others wait for its response, and share it if it is a denial. They call the store themselves when just enough of
// their deadline is left.
//
// Memory is bounded: 16384 denials, 8192 keys with calls in flight, 1024 shards.
package guard
