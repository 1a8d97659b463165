// Package lookup lets decisions on a new key wait until this node has read the consumption of its peers from an
// exchange.
package lookup
