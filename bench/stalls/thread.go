package stalls

import "time"

// Times are the CPU times of a thread. The rest of the time it slept: it had nothing to do, waited for a lock, or the
// runtime had stopped it or had no processor for it.
type Times struct {
	Ran    time.Duration // on a core
	Queued time.Duration // it could have run, but the kernel ran others
}

// Since returns the difference to earlier times.
func (t Times) Since(earlier Times) Times {
	return Times{t.Ran - earlier.Ran, t.Queued - earlier.Queued}
}
