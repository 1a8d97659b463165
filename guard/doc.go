// Package guard stands between an engine and a store that can fail: it keeps calls short, stops calling what does not
// answer, decides by policy meanwhile, and answers by itself what it knows to be denied.
//
//	g, err := guard.New(redis, guard.Options{Nodes: fleet.Size})
//	if err != nil { ... }
//	defer g.Close()
//	d, err := g.Take(ctx, headgate.Check{
//		Key: "search/alice", Limit: headgate.PerSecond(10), Cost: 1, OnFailure: headgate.Local,
//	})
//
// A [Guard] is a [headgate.Limiter] around any other. Where the other answers, so does the guard, with the same answer.
//
// # Deadline
//
// Every call of the store ends after Options.Deadline, or within a millisecond of the caller's context if that is
// sooner; who has waited for other callers before (see Denials) has what is left of it. Only a TakeAll that asks
// several shards may take longer: a deadline for each that does not answer. A call that timed out is never sent again,
// since it may have counted. If the caller's own context ends, it gets that error and the store is not blamed. Errors
// that are the caller's fault pass unchanged and are not failures either. Nor is it one if the store answers that it
// cannot decide a check, being full (headgate.ErrFull) or having something else under the key (an error with a method
// Refused() bool that returns true), but then the policy decides. No goroutine is started for a call: the store is
// trusted to return when its context ends. The context of a call is canceled when the call has returned, and is used again
// instead if the store is a [Forgetter].
//
// If the store is a [Wire], the deadline begins when the call is sent. A call whose response has arrived and was not read
// yet goes on. So does, for up to one deadline more, a call to a shard that has just sent something: the response may be
// on its way to the caller within this process. A busy process is not a failure of the store.
//
// # Overload
//
// Overload is not an outage. At least 128 decisions of a shard are under way at once, and up to 900 while its calls are
// quick. Other requests wait in a queue for up to eight deadlines. Their calls have five deadlines instead of one, as a
// server that shares a busy machine may not run for a while. A request that waits longer, or finds 16384 in the queue, gets
// [headgate.ErrOverloaded]; no policy decides it, whatever OnFailure says. In HTTP that is 503 with Retry-After.
//
// # Circuits
//
// After 5 failures in a row, or when half of at least 20 calls within 2 s failed, the circuit opens: nothing is sent and
// nobody waits, and policies decide. Only a goroutine of the guard asks the store how it is: after 100 ms, then every 200 ms
// for the 10 s in which most failovers are over, then twice a second. When it answers, the circuit closes and decisions are exact again. The store
// may as well be away from the beginning.
//
// A store that is [Sharded] has one circuit a shard, so that a dead one leaves the others alone. A store that is a
// [Prober] says itself how a shard is; of another, the check that failed last is looked at with a cost of 0.
//
// # Policies
//
// What a check says in OnFailure decides it when its shard cannot be asked, or was asked and failed. Such a decision is
// Degraded, and counted in [Stats]. A cost above the limit's capacity is denied whatever the policy.
//
//	Open    allowed. Remaining is the capacity less the cost.
//	Closed  denied. RetryAfter is an estimate: the time to the next probe, or 100 ms if the circuit is closed.
//	Local   decided by Options.Local under Check.Safe or, if that is nil, under this node's share: Count and Burst divided
//	        by Options.Nodes, at least 1. What is left in the local counters after an outage has no effect on the store.
//
// A receipt tells where its units were taken. The store's own have a time, which is not negative. Those of Open have an At
// of −1 and giving them back does nothing; those of Local have one below −1, and are given back to Options.Local. So a
// guard cannot stand before another guard.
//
// Charge follows the same policies: under Open and Closed the units are lost and counted as such, under Local they are
// charged locally. Give and Reset fail with an error that wraps [ErrUnavailable]: nothing is lost without a word.
//
// # Several checks
//
// TakeAll asks shard by shard, in the order in which they first occur, each with one call. A shard is asked only if those
// before it allow, and what they took is given back in the background if it denies; the decisions then say what will
// remain, but their ResetAfter still counts what was taken. If a check of a shard that is down says Closed, all is denied
// and nothing asked. If a shard fails on the way, the policies of its checks decide and the rest stays exact.
//
// # Denials
//
// A denial is remembered until its RetryAfter has passed, counted from when the store was asked, and at most for
// Options.DenyCache. Meanwhile the guard denies by itself. So a client that does not listen costs the store next to
// nothing, and what happens to its key elsewhere (a refund, a reset) shows within that time. It holds for the same key,
// owner and limit; a changed limit is asked for at once. A Charge, Give or Reset through this guard ends it.
//
// It holds for the cost that was denied. It holds for larger ones too where one answer tells when they would pass: with
// fixed-window, and with token-bucket, gcra and leaky-bucket if a unit comes back in whole microseconds (10/s, not 3/s).
// Otherwise each cost asks for itself, and Remaining is what the store said when it was asked. Under concurrency, and for
// keys that are split, RetryAfter is an estimate, and a denial is remembered for a hundredth of DenyCache. Degraded
// answers are not remembered. In TakeAll a denial that is remembered denies the request; the other checks are not asked.
//
// Callers of one key do not rush the store either. No more units are under way at once than could pass: the capacity at
// first, then what answers said remains and what has come back since, and a call to find out. The others wait for an
// answer, and share it if it is a denial. When there is just time left for a call of their own they ask all the same, unless
// the store should have answered others of the key by then and has not; in that case a policy decides at the deadline. From a store whose
// answers take half the deadline nobody waits for others. Who comes when a denial may or may not be over, as it is not
// known when exactly the store made it, waits until it is, which takes as long as the store took to answer.
//
// # Memory
//
// The tables are bounded: 16384 denials, 8192 keys with calls under way, 1024 shards. A denial that has no room takes that
// of an older one; a key that has none is not held back; shards beyond share one circuit.
package guard
