// Package rounds repeats a task at intervals, by a clock.Clock.
package rounds
