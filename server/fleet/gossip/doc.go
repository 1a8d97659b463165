// Package gossip shares limits between nodes without a store: each node decides by its own counters, and sends updates
// to its peers.
package gossip
