package algorithm

import "github.com/headgate/headgate"

// fixedWindow admits Count units in every clock-aligned window. Across the boundary of two windows, twice Count can
// pass in less than a period. It implements steps.
type fixedWindow struct{ pairSteps }

// A state of fixed-window is a Pair. Its Time is the time of the latest take, charge or refund, and never goes back.
// Its Units are those consumed in the window that contains Time.

// advanceWindow returns the window at now, or at w.Time if that is later, and the time at which it ends.
func (p *Plan) advanceWindow(w Pair, now int64) (advanced Pair, end int64) {
	now = max(now, w.Time)
	start := floorTo(now, p.period)
	if w.Time < start {
		w.Units = 0
	}
	w.Time, w.Last = now, now
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

// takeWindow takes n units if they are allowed, and reports whether it took them.
func (p *Plan) takeWindow(w Pair, now, n int64) (Pair, bool) {
	advanced, _ := p.advanceWindow(w, now)
	if advanced.Units += n; advanced.Units > p.capacity {
		return w, false
	}
	return advanced, true
}

func (p *Plan) decideWindow(w Pair, now, n int64) headgate.Decision {
	if n > p.capacity {
		return p.denyForever(p.decideWindow(w, now, 0))
	}
	w, end := p.advanceWindow(w, now)
	var d headgate.Decision
	p.describeWindow(&d, w, end, now, n, w.Units+n <= p.capacity)
	return d
}

// describeTakenFromWindow fills in the decision of a take: w is the window after n units were taken from it at now.
func (p *Plan) describeTakenFromWindow(d *headgate.Decision, w Pair, now, n int64) {
	w, end := p.advanceWindow(w, now)
	w.Units -= n
	p.describeWindow(d, w, end, now, n, true)
}

// describeWindow fills in the decision about n units. w and end are what advanceWindow returned for now.
func (p *Plan) describeWindow(d *headgate.Decision, w Pair, end, now, n int64, allowed bool) {
	d.Allowed = allowed
	d.Limit = p.capacity
	if allowed {
		w.Units += n
		if n > 0 {
			d.Receipt = headgate.Receipt{At: max(now, w.Time), Units: n}
		}
	} else {
		// The next window starts with no units, even after a Charge beyond the limit.
		d.RetryAfter = micros(end - now)
	}
	d.Remaining = p.capacity - w.Units
	if w.Units > 0 {
		d.ResetAfter = micros(end - now)
	}
}

// chargeWindow takes n units even beyond the capacity, or fewer if the debt would exceed its maximum.
func (p *Plan) chargeWindow(w Pair, now, n int64) (Pair, headgate.Decision) {
	w, end := p.advanceWindow(w, now)
	n = min(n, max(0, p.maxConsumed-w.Units))
	w.Units += n
	var d headgate.Decision
	p.describeWindow(&d, w, end, now, 0, w.Units <= p.capacity)
	d.RetryAfter = 0 // the units were taken, so there is nothing to retry
	d.Receipt = headgate.Receipt{At: max(now, w.Time), Units: n}
	return w, d
}

// giveWindow gives back n units that were taken at the time at, if that time is in the current window.
func (p *Plan) giveWindow(w Pair, now, n, at int64) Pair {
	w, end := p.advanceWindow(w, now)
	if at >= end-p.period && at < end {
		w.Units = max(0, w.Units-n)
	}
	return w
}

func (fixedWindow) kind() Kind { return KindFixedWindow }

func (fixedWindow) words(*Plan) (initial, growth int) { return windowWords, 0 }

func (fixedWindow) prepare(*Plan) {}

func (fixedWindow) restore(p *Plan, _ State) { p.limit.Staggered = p.head&staggeredBit != 0 }

// luaArgs returns the period and, as b, the offset plus 1 for staggered windows and 0 for others.
func (fixedWindow) luaArgs(p *Plan, offset int64, _ uint64) (a, b int64) {
	if p.limit.Staggered {
		offset++
	}
	return p.period, offset
}

func (fixedWindow) lua() luaIncludes { return luaIncludes{room: "fixedwindowroom"} }
