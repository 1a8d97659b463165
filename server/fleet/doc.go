// Package fleet has the types shared by limiters that enforce one limit across nodes without a store call per decision.
//
// Each limiter is a headgate.Limiter in a package of its own:
//
//	fleet/lease   takes units from a shared store ahead of their use. Over-admission is 0 in total, and at most
//	              rate × 100 ms in any interval. One store call serves many decisions.
//	fleet/async   decides by this node's counters, and exchanges consumption with its peers through Redis several times
//	              per interval. Over-admission becomes a debt, which is repaid.
//	fleet/gossip  does the same without a store: nodes send updates to each other.
//	fleet/region  decides by a region's own store, and exchanges consumption with other regions.
//
// async, gossip and region count in a ledger (fleet/internal/ledger): what this node consumed of each key, and what its
// peers reported. Nodes send totals, not differences, so updates may be lost, late or repeated.
//
// token-bucket, gcra, fixed-window and sliding-window can be shared like this. The other algorithms need more than
// totals.
//
// [Members] is the number of nodes. gossip knows it, and so does fleet/membership, which keeps a list of nodes in
// Redis.
//
// # Time
//
// All packages take their clock, timers and randomness from their options. Windows start by a clock that all nodes
// agree on: that of a [ClockSource], or the median of the nodes' clocks. Networks and stores are behind interfaces, so
// that a simulator can run all of this.
package fleet
