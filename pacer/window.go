package pacer

// window is the schedule of an Allowance: limit permits in each period. Callers that find too few permits left get
// permits of a later period. Callers behind them never get permits of an earlier period.
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

// takeLate leaves the rest of the permits of the period that contains at to later callers.
func (w *window) takeLate(s state, at, n int64, _ state) state {
	after, _ := w.take(s, at, n)
	return after
}
