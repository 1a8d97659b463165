// Package regiontotals adds up the consumption of a region's nodes in memory. It does the same as the Redis script of
// package fleetredis. It is for simulations and tests.
package regiontotals
