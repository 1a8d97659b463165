// Package regiontotals adds up the consumption of a region's nodes in memory, by the same steps as the script of
// fleetredis. It is for simulations and tests.
package regiontotals
