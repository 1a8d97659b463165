// Package ledger counts the units of each key that this node and its peers consumed, and decides checks by the sum.
package ledger
