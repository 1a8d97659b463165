// Package async shares limits between nodes through an exchange, such as Redis: each node decides by its own counters,
// and exchanges its consumption with its peers.
package async
