// Package gossip shares limits between nodes without a store. Each node decides by its own counters, and sends its
// consumption to its peers over UDP.
package gossip
