// Package engine decides requests by rules: it finds the rules that match a request, takes units from all of their
// limits or from none, and returns a verdict.
//
//	e, err := engine.New(engine.Config{Store: store, Rules: set})
//	if err != nil {
//		return err
//	}
//	var v engine.Verdict // reuse it for the next request
//	if err := e.Decide(ctx, subject, &v); err != nil || !v.Action.Passes() {
//		return err // or respond with v.Status, or close the connection if v.Action is Drop
//	}
//	serve()
//	return v.Settle(ctx, responseHeader.Get)
//
// If v.Action is Delay, the caller calls v.Wait before it serves the request. It may also call v.KeepSlots, which
// renews the request's slots of concurrency limits until Settle; otherwise they expire after the TTL of these limits.
//
// The subject holds the attributes of the request. Package identity and rules.Attributes provide subjects.
//
// # Order of checks
//
// A request is denied before anything is taken if a rule blocks it, if it lacks an attribute that a rule must count by,
// or if a rule refuses unregistered clients. Otherwise its limits are checked, with one call for each store. Limits
// that are counted in this process come first. Within a store, limits of the client come before limits that clients
// share. If a store denies, the units from earlier stores are refunded, so a denied request consumes nothing. If
// several limits deny, the one with the longest RetryAfter determines the action and the status.
//
// A rule with on_limit: shadow never denies. Its limits are decided and charged separately from the others, and
// [Verdict.Outcomes] reports what the rule would have done.
//
// # Delays
//
// A rule with on_limit: delay 2s takes units in advance that will be restored within 2 s, and [Verdict.Wait] delays the
// request until then. Requests are served in the order in which they took their units, on any node. If a waiting
// request is cancelled, the next new request takes its units, and the other waiting requests keep their times. At that
// moment one request more than the limit may pass, but not over the time of the whole queue.
//
// # Costs
//
// The cost of a request is taken before it is served. If the cost is in a response header, an estimate is taken first,
// and [Verdict.Settle] charges or refunds the difference. A charge beyond the limit is a debt, which decreases with
// time. If the response ends before it states its cost, [Verdict.SettleIncomplete] charges the rule's Cost.Max. Both
// methods release the slots of concurrency limits. If the request is not served, [Verdict.Cancel] refunds its units,
// except those that have been restored with time.
//
// The denials that lead to a penalty are counted in Config.Local, separately in each process. Above 128 denials the
// count is an estimate.
//
// # Failures
//
// If a store returns an error, the on_failure policy of each rule decides. closed denies with status 503. open allows.
// local counts in Config.Local, by the rule's safe limit if it has one. The verdict is Degraded, and Config.OnError is
// called. For a remote store use package redisstore/guard, which applies the same policies, and limits the number and
// the duration of calls.
//
// [Engine.SetRules] replaces all rules at once. A request is decided by the rules that are in effect when its decision
// begins. Counters persist.
package engine
