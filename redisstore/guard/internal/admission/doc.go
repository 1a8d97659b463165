// Package admission decides which requests of a guard call the store, and when.
//
// A [Queue] limits how many decisions of one shard are active, and queues the others. A [KeyGate] makes callers of one
// key wait if the store would probably deny most of them. A [DenyCache] denies requests that the store would deny.
// Times are in µs by the guard's clock.
package admission

// An Outcome is how the wait of a request ended.
type Outcome uint8

// Outcomes.
const (
	Admitted    Outcome = iota
	Denied              // denied by the response to another request
	Unavailable         // the shard is down or did not respond to other requests, or no time is left
	Canceled            // the caller's context has ended
	TimedOut            // the request has waited long enough for others
	Overloaded          // too many requests wait
)
