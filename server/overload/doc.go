// Package overload decides which work a node sheds while it has too few cores for its load, in this order: the console
// and the documentation, explanations, details of statistics, and last a share of the requests.
//
// The load is how long goroutines wait for a core: see [SchedulerWait]. Limits stay on at any load.
package overload
