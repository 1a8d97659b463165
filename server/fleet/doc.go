// Package fleet has the types that several limiters share. These limiters enforce one limit across nodes without a
// store call for each decision.
//
// Each limiter implements headgate.Limiter and has its own package:
//
//	fleet/lease   takes units from a shared store before they are needed. Over-admission is 0 in total, and at most
//	              rate × 100 ms in any interval. One store call serves many decisions.
//	fleet/async   decides by this node's counters, and exchanges consumption with its peers through Redis several times
//	              per interval. Over-admission becomes a debt, which is repaid.
//	fleet/gossip  does the same without a store: nodes send updates to each other.
//	fleet/region  decides by a region's own store, and exchanges consumption with other regions.
//
// async, gossip and region count in a ledger (fleet/internal/ledger). For each key, it has the units that this node
// consumed and the units that its peers reported. Nodes send totals, not differences, so updates may be lost, late or
// repeated.
//
// Nodes can share token-bucket, gcra, fixed-window and sliding-window limits in this way. The state of the other
// algorithms cannot be computed from totals.
//
// [Members] returns the number of nodes. The limiter of gossip implements it, and so does fleet/membership, which keeps
// a list of nodes in Redis.
//
// # Time
//
// All packages get their clock, timers and random numbers from their options. Nodes agree on a common clock for the
// start of windows: the clock of a [ClockSource], or the median of the nodes' clocks. Networks and stores are behind
// interfaces, so a simulator can run these packages.
package fleet
