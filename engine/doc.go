// Package engine decides requests by rules: it finds the rules that match, takes from all their limits or from none,
// and returns a verdict.
//
//	e, err := engine.New(engine.Config{Store: store, Rules: set})
//	if err != nil {
//		return err
//	}
//	var v engine.Verdict // use it again for the next request
//	if err := e.Decide(ctx, subject, &v); err != nil || !v.Action.Passes() {
//		return err // or respond with v.Status, or close the connection if v.Action is Drop
//	}
//	serve()
//	return v.Settle(ctx, header.Get)
//
// Before it serves, a caller may hold the slots of concurrency limits until Settle with v.KeepSlots, and waits with
// v.Wait while the request is delayed.
//
// The subject has the request's attributes: it comes from package identity, or is a rules.Attributes. On a
// memstore.Store a decision allocates nothing.
//
// A rule that blocks, a missing key attribute and an unregistered client deny before anything is taken. Then limits are
// checked, those of one store in one call: first those counted in this process, then the client's own in the store,
// then shared ones. Units are refunded when a later limit denies, so that a client over its own limit consumes nothing
// that others need. If several limits deny, the one with the longest wait decides the action and the status.
//
// A rule with on_limit: shadow never denies. Its limits are decided and charged separately, unless the request is
// blocked; [Verdict.Outcomes] report what it would have done.
//
// A rule with on_limit: delay 2s queues requests: it takes units in advance that will be restored within 2 s, and
// [Verdict.Wait] delays the request until then. Requests are served in the order in which they took their units, on any
// node. The units of a cancelled request go to the next new request; waiting ones keep their times. So each cancelled
// request may let one more than the limit pass at one moment, but not over the time of the whole queue.
//
// The cost of a request is taken before it is served. For a cost in a response header, the estimate is taken and
// [Verdict.Settle] charges or refunds the difference. A charge beyond the limit is a debt that time repays.
// [Verdict.SettleCut] is for a response that was cut short before it stated its cost: it charges the rule's Cost.Max.
// Both release the slots of concurrency limits, which [Verdict.KeepSlots] keeps until then. [Verdict.Cancel] is for
// requests that were not served, and refunds all units that have not been restored since.
//
// The denials that lead to a penalty are counted by each process, in Config.Local. Counts above 128 are estimates.
//
// If a store returns an error, the rules' on_failure decides: closed denies with 503 whatever the others say; local
// counts in Config.Local, by the rule's safe limit or the limit itself; open allows. The verdict is Degraded, and
// Config.OnError is called. For a remote store use package guard, which applies the same policies, and limits
// the number of calls and their time.
//
// [Engine.SetRules] replaces all rules at once. A request is decided by the set that it began with, and counters
// persist. [Engine.DecideTerms] is for services that decide for remote callers.
package engine
