// Package fleet is the part "fleet" of the benchmark: limits that several hosts share by leases or gossip.
package fleet
