// Package engine decides requests by rules: it finds the rules that match, takes from all their limits or from none, and
// says what to do.
//
//	e, err := engine.New(engine.Config{Store: store, Rules: set})
//	if err != nil { ... }
//
//	var v engine.Verdict // use it again for the next request
//	if err := e.Decide(ctx, who, &v); err != nil {
//		return err // ctx has ended
//	}
//	if !v.Action.Passes() {
//		// answer with v.Status, or close the connection if v.Action is Drop
//	}
//	v.KeepSlots() // of concurrency limits, for as long as the request lasts
//	if err := v.Wait(ctx); err != nil { // holds those that are delayed
//		return err
//	}
//	serve()
//	err = v.Settle(ctx, response.Header().Get)
//
// Who is asking comes from package identity, or is a rules.Attributes. On a memstore.Store a decision allocates nothing.
//
// # What is asked, and in which order
//
// A rule that blocks, a key attribute that is missing and a client that is not registered deny before anything is taken.
// Then limits are asked, those of one store in one call: first those that are counted in this process, then in the store
// the client's own, then those it shares with others. What was taken is given back when a later one denies, so that a
// client over its own limit drains nothing that others need.
//
// If several deny, the one that takes longest to wait for says what happens and with which status.
//
// # Shadow
//
// A rule that is on_limit: shadow has no say. Its limits are decided and charged on their own, whatever becomes of the
// request, unless it is blocked; [Verdict.Outcomes] tell what it would have done. Each such rule is another call of its
// store; stores behind a network are asked while the request is decided.
//
// # Delay
//
// A rule that is on_limit: delay 2s reserves a place in line by taking ahead what comes back within these 2 s, and
// [Verdict.Wait] holds the request until its turn. Who took first has his turn first, on whatever host, as long as nobody
// hangs up. A leaky-bucket is a line by itself: it spaces all requests evenly, and its burst is how long the line may be.
// Several rules that delay hold for the longest of their times. At most Config.MaxWaiting requests are held at once; more
// are denied as QueueFull.
//
// Who hangs up gives his place back, and it goes to who comes next: those who wait already keep their turns. So for each
// place that was given back in the midst of a line, one request more than the limit says may pass at one moment, but not
// in the time that the whole line takes.
//
// # Costs
//
// What a request costs is taken before it is served. For a cost that a response header says, the estimate is taken and
// [Verdict.Settle] charges or refunds the difference, on every limit of the rule. A charge beyond the limit is a debt that
// time repays. [Verdict.SettleCut] is for a response that was cut short before it said its cost, as clients can do: it charges
// the rule's Cost.Max. Both also release the slots of concurrency limits, which [Verdict.KeepSlots] keeps until then. [Verdict.Cancel] is for requests that were not
// served, and gives everything back; units that time has given back meanwhile are not given twice.
//
// A rule that has count_rejected charges the cost of the requests that it denies itself, and RetryAfter accounts for it.
// Requests that another rule denies cost it nothing.
//
// # Callers who are asked by others
//
// [Engine.DecideTerms] is for protocols by which others ask for decisions: by one rule, at a cost that they name, or only to
// look. Who reports a delay instead of holding the request says so in the [Terms]. A verdict does not leave the process; for
// the places that it holds under concurrency limits [Verdict.AppendLease] writes a text, and [Engine.Release] ends it, on any
// host that shares the store. [Engine.Reset] forgets what a client has consumed under a rule.
//
// # Penalties
//
// Denials are counted per rule and client in Config.Local, up to 128 one by one and more of them in two windows. After
// enough of them the penalty's limits apply too, besides those that the client has anyway, until its time is over. They
// have counters of their own, in the rule's store. Each process counts denials for itself.
//
// # When a store fails
//
// A store that returns an error leaves the decision to the rules' on_failure: closed denies with 503 whatever the others
// say; local counts in Config.Local, by the rule's safe limit or the limit itself; open lets pass. The verdict is Degraded,
// and Config.OnError is told. Package guard around a store behind a network does the same, and keeps its calls short;
// without it they end when the request's context does.
//
// # Rules and clients that change
//
// [Engine.SetRules] swaps all rules at once. A request is decided by the set that it began with, and what was consumed
// stays. [Engine.AddClient] and [Engine.RemoveClient] change who is registered, in whatever rules come.
package engine
