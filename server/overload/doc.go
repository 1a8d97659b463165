// Package overload decides which work a node stops while its cores are overloaded. It stops, in this order, the console
// and the documentation, the explanations of decisions, detailed statistics, and finally a share of the requests.
//
// The measure of load is the time that goroutines wait for a core; see [SchedulerWait]. Limits are enforced at any
// load.
package overload
