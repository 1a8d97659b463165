// Package ledger counts what this node and its peers consumed of each key, and decides checks by the sum.
package ledger
