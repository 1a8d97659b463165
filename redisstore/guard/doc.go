// Package guard protects its callers from a store that can fail. It limits the time of calls, stops calling a store
// that does not respond, decides by policy until the store responds again, and remembers denials.
//
//	g, err := guard.New(redis, guard.Options{Nodes: func() int { return 3 }})
//	if err != nil {
//		return headgate.Decision{}, err
//	}
//	defer g.Close()
//	perUser := headgate.MustBind(g, headgate.PerSecond(10)).WithPolicy(headgate.Local)
//	return perUser.Take(ctx, "search/alice", 1)
//
// A [Guard] is a [headgate.Limiter] in front of another one, the store. While the store works, the store decides.
//
// # Deadline
//
// A call of the store ends after Options.Deadline. If the caller's context ends sooner, the call ends within a
// millisecond after that. A TakeAll over several shards has one deadline for each shard. A call that timed out is never
// sent again, because it may have counted.
//
// Errors of the caller and the end of its context are not failures of the store. If the store refuses to decide one
// check, this is not a failure either, and the policy decides this check. Such a refusal is headgate.ErrFull, or an
// error whose method Refused() bool returns true. If the store implements [Traffic], time in which this process is too
// busy to send a call or to read its response does not count towards the deadline.
//
// # Overload
//
// Overload is not an outage. At most 32 to 900 decisions of a shard are active at once, depending on how quick its
// calls are. Other requests wait in a queue for up to eight deadlines, and their calls may take five deadlines. A
// request that waits longer, or finds 16384 others in the queue, gets [headgate.ErrOverloaded], whatever its policy is.
// If this process did not run at all for some time, because it or its machine was stopped, this is not overload: this
// time is added, once, to the deadlines of waits and calls.
//
// # Circuits
//
// The circuit opens after 5 failures in a row, or if half of at least 20 calls within 2 s failed. While it is open,
// policies decide at once, and only a goroutine of the guard calls the store, to probe it: after 100 ms, then every 200
// ms for 10 s, then twice a second. When the store responds, the circuit closes. The store may be unreachable from the
// beginning. A [Sharded] store has a circuit for each shard. The guard probes a [Prober] with Probe and other stores
// with Peek.
//
// # Policies
//
// The policy Check.OnFailure decides a check whose shard has failed or is unavailable. Such a decision is Degraded, and
// counted in [Stats]. Every policy denies a cost above the limit's capacity.
//
//	Open    allowed. Remaining is the capacity minus the cost.
//	Closed  denied. RetryAfter is an estimate: the time to the next probe, or 100 ms if the circuit is closed.
//	Local   decided by Options.Local under Check.Safe or, if that is nil, under this node's share: Count and Burst
//	        divided by Options.Nodes, at least 1.
//
// The receipt of a decision by Open has an At of -1; Give does nothing with it. The receipt of a decision by Local has
// a lower At; Give gives its units back to Options.Local. So a guard cannot be the store of another guard. Charge
// follows the policies; with Open and Closed the units are lost and counted. Give and Reset fail with an error that
// wraps [ErrUnavailable].
//
// # Denials
//
// A denial is remembered until its RetryAfter has passed since the call, and at most for Options.DenyCache. It applies
// to the same key, owner, limit and cost, and also to larger costs if the response shows when they would pass. A
// Charge, Give or Reset through this guard ends the denial at once; a refund or reset on another node has an effect
// here when the denial expires. For concurrency limits and split keys, RetryAfter is an estimate, so their denials are
// remembered for only a hundredth of DenyCache. Degraded decisions are not remembered.
//
// Callers of one key wait for each other. The calls in flight ask for no more units than could pass, plus one call that
// finds out whether more units could pass. Other callers wait for its response. If it is a denial that applies to them,
// too, they are denied without a call. They call the store themselves when only enough of their deadline is left for
// it.
//
// Memory is bounded: 16384 denials, 8192 keys with calls in flight, 1024 shards.
package guard
