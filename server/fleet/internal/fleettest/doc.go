// Package fleettest has an exchange in memory and other helpers for tests of limiters that share limits.
package fleettest
