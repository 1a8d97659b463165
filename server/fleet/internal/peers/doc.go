// Package peers numbers the peers of a node, and estimates how late their updates are.
package peers
