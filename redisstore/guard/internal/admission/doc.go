// Package admission decides which requests of a guard call the store, and when.
//
// A [Queue] bounds how many decisions of one shard are active, and queues the others. A [KeyGate] holds back callers of
// one key that would all be denied. A [DenyCache] denies requests that the store would deny. Times are in µs of
// the guard's clock.
package admission

// An Outcome is how the wait of a request ended.
type Outcome uint8

// Outcomes.
const (
	Admitted    Outcome = iota
	Denied              // by a denial that was learned meanwhile
	Unavailable         // the shard is down or did not respond to others, or no time is left
	Canceled            // the caller's context has ended
	TimedOut            // it has waited long enough for others
	Overloaded          // too many requests wait
)
