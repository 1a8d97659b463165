package algorithm

import "github.com/headgate/headgate"

// fixedWindow admits Count units in every window of the clock. Across a border twice Count can pass in less than a
// period.
type fixedWindow struct{}

// A Window is the state of fixed-window: Count units were consumed in the window that holds Start. Start never goes
// back; it is a window's beginning, or the latest one known under another period. Stores that keep one in two words of
// their own may use it instead of a State.
type Window struct {
	Start int64 // µs
	Count int64 // units
}

func windowOf(s State) Window {
	if len(s) == 0 {
		return Window{}
	}
	return Window{Start: s[0], Count: s[1]}
}

func (w Window) into(s State) State {
	return Bucket{Anchor: w.Start, Level: w.Count}.into(s)
}

// roll brings the window to now, or leaves it where it is if it is ahead, and returns when it ends.
func (p *Plan) roll(w Window, now int64) (rolled Window, end int64) {
	now = max(now, w.Start)
	start := floorTo(now, p.period)
	if w.Start < start {
		w = Window{Start: start}
	}
	return w, start + p.period
}

// floorTo returns the last multiple of step that is not after t.
func floorTo(t, step int64) int64 {
	rest := t % step
	if rest < 0 {
		rest += step
	}
	return t - rest
}

// TakeWindow is Take for a window: it returns the window after, and whether the n units were taken. n is at most the
// capacity.
func (p *Plan) TakeWindow(w Window, now, n int64) (Window, bool) {
	w, _ = p.roll(w, now)
	if w.Count+n > p.capacity {
		return w, false
	}
	w.Count += n
	return w, true
}

// DecideWindow is Decide for a window.
func (p *Plan) DecideWindow(w Window, now, n int64) headgate.Decision {
	if n > p.capacity {
		return p.never(p.DecideWindow(w, now, 0))
	}
	w, end := p.roll(w, now)
	return p.describeWindow(w, end, now, n, w.Count+n <= p.capacity)
}

// DescribeTakenWindow completes the decision of n units that TakeWindow has just taken, which left the window w.
func (p *Plan) DescribeTakenWindow(w Window, now, n int64) headgate.Decision {
	w, end := p.roll(w, now)
	w.Count -= n
	return p.describeWindow(w, end, now, n, true)
}

func (p *Plan) describeWindow(w Window, end, now, n int64, allowed bool) headgate.Decision {
	d := headgate.Decision{Allowed: allowed, Limit: p.capacity}
	if allowed {
		w.Count += n
		if n > 0 {
			d.Receipt = headgate.Receipt{At: max(now, w.Start), Units: n}
		}
	} else {
		// A debt from Charge goes with its window, as all of it does.
		d.RetryAfter = micros(end - now)
	}
	d.Remaining = p.capacity - w.Count
	if w.Count > 0 {
		d.ResetAfter = micros(end - now)
	}
	return d
}

// ChargeWindow takes n units whatever the count, up to the deepest debt.
func (p *Plan) ChargeWindow(w Window, now, n int64) (Window, headgate.Decision) {
	w, end := p.roll(w, now)
	w.Count += min(n, max(0, p.deepest-w.Count))
	d := p.describeWindow(w, end, now, 0, w.Count <= p.capacity)
	d.RetryAfter = 0
	d.Receipt = headgate.Receipt{At: max(now, w.Start), Units: n}
	return w, d
}

// GiveWindow returns n units taken at a time, if its window is still open.
func (p *Plan) GiveWindow(w Window, now, n, at int64) Window {
	w, end := p.roll(w, now)
	if at >= end-p.period && at < end {
		w.Count = max(0, w.Count-n)
	}
	return w
}

func (fixedWindow) decide(p *Plan, s State, now, n int64) headgate.Decision {
	return p.DecideWindow(windowOf(s), now, n)
}

func (fixedWindow) take(p *Plan, s State, now, n int64, _ uint64) (State, headgate.Decision) {
	w, ok := p.TakeWindow(windowOf(s), now, n)
	if !ok {
		return s, p.DecideWindow(w, now, n)
	}
	return w.into(s), p.DescribeTakenWindow(w, now, n)
}

func (fixedWindow) charge(p *Plan, s State, now, n int64) (State, headgate.Decision) {
	w, d := p.ChargeWindow(windowOf(s), now, n)
	return w.into(s), d
}

func (fixedWindow) give(p *Plan, s State, now, n int64, r headgate.Receipt) State {
	return p.GiveWindow(windowOf(s), now, n, r.At).into(s)
}
