// Package fleettest has helpers for tests of limiters that share limits, such as a fleet.Exchange in memory.
package fleettest
