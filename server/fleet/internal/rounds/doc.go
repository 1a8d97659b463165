// Package rounds repeats a task at intervals, by a fleet.Clock.
package rounds
