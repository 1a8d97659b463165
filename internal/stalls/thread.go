package stalls

import "time"

// Times are what has become of a thread's time. What is in neither it slept: it had nothing to do, or the runtime had no
// processor for it, had stopped it, or a lock kept it.
type Times struct {
	Ran    time.Duration // on a core
	Queued time.Duration // it could have run, and the kernel ran others
}

// Since returns what became of it since earlier.
func (t Times) Since(earlier Times) Times {
	return Times{t.Ran - earlier.Ran, t.Queued - earlier.Queued}
}
