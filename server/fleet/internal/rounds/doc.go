// Package rounds runs a function at intervals, which are measured by a clock.Clock.
package rounds
