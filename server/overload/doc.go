// Package overload decides which of its own work a node sheds while it has too few cores for its load, in this order:
// the console and the documentation, explanations, details of statistics, and at last requests.
//
// The load is how long goroutines wait for a core: see [SchedulerWait]. Limits stay on whatever the load is.
package overload
