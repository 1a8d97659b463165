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
// Before it serves the request, the caller calls v.Wait if v.Action is Delay. It may call v.KeepSlots, which renews the
// request's slots of concurrency limits until Settle; otherwise they expire after the TTL of these limits.
//
// The subject holds the attributes of the request: use package identity, or rules.Attributes. With a memstore.Store a
// decision allocates nothing.
//
// A request is denied before anything is taken if a rule blocks it, if it lacks an attribute that a rule must count by,
// or if a rule refuses unregistered clients. Otherwise its limits are checked, with one call for each store: first the
// limits that are counted in this process. Within a store, limits of the client come before limits that clients share.
// If the limits of a store deny, the units from earlier stores are refunded, so a denied request consumes nothing. If
// several limits deny, the one with the longest wait decides the action and the status.
//
// A rule with on_limit: shadow never denies. Unless the request is blocked, the rule's limits are decided and charged
// separately from the others, and [Verdict.Outcomes] reports what the rule would have done.
//
// A rule with on_limit: delay 2s queues requests: it takes units in advance that will be restored within 2 s, and
// [Verdict.Wait] delays the request until then. Requests are served in the order in which they took their units, on any
// node. The units of a cancelled request go to the next new request; waiting requests keep their times. So each
// cancelled request may let one request more than the limit pass at one moment, but not over the time of the whole
// queue.
//
// The cost of a request is taken before it is served. If the cost is in a response header, an estimate is taken first,
// and [Verdict.Settle] charges or refunds the difference. A charge beyond the limit is a debt that time repays.
// [Verdict.SettleIncomplete] is for a response that was cut short before it stated its cost: it charges the rule's
// Cost.Max. Both release the slots of concurrency limits. [Verdict.Cancel] is for requests that were not served: it
// refunds all units that time has not restored since.
//
// The denials that lead to a penalty are counted in each process separately, in Config.Local. Above 128 denials the
// count is an estimate.
//
// If a store returns an error, the on_failure policy of each rule decides: closed denies with 503, regardless of other
// rules; local counts in Config.Local, by the rule's safe limit or, without one, by the limit itself; open allows. The
// verdict is Degraded, and Config.OnError is called. For a remote store use package redisstore/guard, which applies the
// same policies, and limits the number and the duration of calls.
//
// [Engine.SetRules] replaces all rules at once. A request is decided by the rules that were in effect when its decision
// began, and counters persist. [Engine.DecideWith] is for services that decide for remote callers.
package engine
