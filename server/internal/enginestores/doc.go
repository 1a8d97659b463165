// Package enginestores tests the engine with stores of other modules: Redis, guard, leases, and counters that nodes
// exchange. The tests are not in package engine, because its module does not depend on these stores.
package enginestores
