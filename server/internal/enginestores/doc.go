// Package enginestores tests the engine on the stores of other modules: Redis, guard, leases and counters that nodes
// exchange.
package enginestores
