// Package fleet holds one limit across hosts without asking a server for every decision: by leases, by telling each other
// through Redis, or by telling each other without it.
//
// Each is a headgate.Limiter. Which one is right depends on what may pass beyond the limit, and on what there is:
//
//	Lease   takes units from a shared store ahead of their use. Nothing passes beyond the limit in total, and within any one
//	        interval at most rate × 100 ms. One call of the store serves many decisions.
//	Async   decides by this node's counters, and exchanges with others what was consumed, some times in every interval.
//	        What passed before it was known is a debt, and is repaid.
//	Gossip  does the same without a store: nodes tell each other directly.
//	Region  decides by a region's own store, and tells other regions what this one consumed.
//
// Async, Gossip and Region keep account in a [Ledger]: what this node consumed of each key, and what it has heard that
// others did. Nodes tell totals, not differences, so that news may be lost, late or repeated without harm.
//
// token-bucket, gcra, fixed-window and sliding-window can be shared so. The others need to know more than how much was
// consumed.
//
// How many nodes there are is known to a [Gossip], or to a [Roll] that nodes keep in Redis: both are [Members].
//
// # Time
//
// Everything goes by a [Clock] that never goes back. Windows begin by a date that nodes have in common: that of a [Dater], or
// the median of theirs. The network is behind [Exchange], [Mesh], [Source], [RollBook] and
// [RegionBook], so that all of this runs under a simulator's time as well.
package fleet
