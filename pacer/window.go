package pacer

// window is the schedule of an Allowance: it has limit permits in each period. If too few permits are left for a
// caller, it gets permits of the next period, and callers behind it never get permits of an earlier period.
type window struct {
	// period is in nanoseconds.
	period int64
	limit  int64
}

func (w *window) advance(s state, at int64) state {
	if periods := (at - s.free.ns) / w.period; periods > 0 {
		s.free.ns += periods * w.period
		s.used = 0
	}
	return s
}

func (w *window) take(s state, at, n int64) (after state, passAt int64) {
	s = w.advance(s, at)
	if n > w.limit-s.used {
		s.free.ns = min(s.free.ns+w.period, farFuture)
		s.used = 0
	}
	s.used += n
	return s, max(at, s.free.ns)
}

// takeLate takes the permits from the period that contains at. Later callers get the rest of this period.
func (w *window) takeLate(s state, at, n int64, _ state) state {
	after, _ := w.take(s, at, n)
	return after
}
