package algorithm

import "github.com/headgate/headgate"

// slidingWindow counts the units of the current window and of the previous one. It estimates the consumption of the
// last period as current + previous × (the part of the previous window that is in the last period). The estimate
// assumes that the units of the previous window were spread evenly: a client that sends them all at the end of that
// window can get twice Count within a period.
type slidingWindow struct{ direct }

// windows is the decoded state.
type windows struct {
	latest   int64 // time of the latest take, charge or refund, in µs
	current  int64 // units consumed in the window that contains latest
	previous int64 // units consumed in the window before that
}

// The indexes of the words in a state, after the head, and their number.
const (
	windowsLatest = iota + 1
	windowsCurrent
	windowsPrevious
	windowsWords
)

func windowsOf(s State) windows {
	if len(s) == 0 {
		return windows{}
	}
	return windows{latest: s[windowsLatest], current: s[windowsCurrent], previous: s[windowsPrevious]}
}

// state encodes the windows in the memory of s, which may be nil.
func (w windows) state(p *Plan, s State) State {
	return append(s[:0], p.head, w.latest, w.current, w.previous)
}

// advance returns the windows at now, or at their latest time if that is later. The current window began at begin, and
// intoWindow has passed since.
func (w windows) advance(p *Plan, now int64) (advanced windows, begin, intoWindow int64) {
	now = max(now, w.latest)
	begin = floorTo(now, p.period)
	switch {
	case w.latest >= begin:
	case w.latest >= begin-p.period:
		w.current, w.previous = 0, w.current
	default:
		w.current, w.previous = 0, 0
	}
	w.latest = now
	return w, begin, now - begin
}

// used returns the units that count as consumed in the last period. The part of the previous window is rounded to the
// nearest unit, and a half is rounded down. If a half were rounded up, one unit of the previous window would count for
// too long, and a busy key would get one unit less than Count in every window.
func (w windows) used(p *Plan, intoWindow int64) int64 {
	return w.current + mulDivNear(w.previous, p.period-intoWindow, p.period)
}

// describe writes the decision about n units to the zero d.
func (w windows) describe(d *headgate.Decision, p *Plan, begin, intoWindow, now, n int64) {
	used := w.used(p, intoWindow)
	d.Allowed, d.Limit = used+n <= p.capacity, p.capacity
	if d.Allowed {
		if n > 0 {
			d.Receipt = headgate.Receipt{At: begin + intoWindow, Units: n}
		}
		used += n
		w.current += n
	} else {
		d.RetryAfter = micros(w.admitTime(p, begin, n) - now)
	}
	d.Remaining = p.capacity - used
	d.ResetAfter = micros(w.resetTime(p, begin, now))
}

// admitTime returns when n more units will be allowed if nothing else is taken.
func (w windows) admitTime(p *Plan, begin, n int64) int64 {
	if room := p.capacity - w.current - n; room >= 0 {
		return begin + p.fadeTime(w.previous, room)
	}
	return begin + p.period + p.fadeTime(w.current, p.capacity-n)
}

// fadeTime returns how many µs after the start of a window at most room units of the previous window count.
func (p *Plan) fadeTime(previous, room int64) int64 {
	if previous <= room {
		return 0
	}
	// room + ½ units are rounded to room.
	return p.period - mulDivFloor(2*room+1, p.period, 2*previous, p.period)
}

// resetTime returns the µs from now until the units of both windows count as 0.
func (w windows) resetTime(p *Plan, begin, now int64) int64 {
	if w.current > 0 {
		return begin + p.period + p.fadeTime(w.current, 0) - now
	}
	return max(0, begin+p.fadeTime(w.previous, 0)-now)
}

func (slidingWindow) decide(p *Plan, s State, now, n int64) (d headgate.Decision) {
	w, begin, intoWindow := windowsOf(s).advance(p, now)
	w.describe(&d, p, begin, intoWindow, now, n)
	return d
}

func (slidingWindow) takeInto(d *headgate.Decision, p *Plan, s State, now, n int64) State {
	w, begin, intoWindow := windowsOf(s).advance(p, now)
	w.describe(d, p, begin, intoWindow, now, n)
	if !d.Allowed {
		return s
	}
	w.current += n
	return w.state(p, s)
}

func (slidingWindow) charge(p *Plan, s State, now, n int64) (after State, d headgate.Decision) {
	w, begin, intoWindow := windowsOf(s).advance(p, now)
	n = min(n, max(0, p.maxConsumed-w.used(p, intoWindow)))
	w.current += n
	w.describe(&d, p, begin, intoWindow, now, 0)
	d.RetryAfter = 0 // the units were taken, so there is nothing to retry
	d.Receipt = headgate.Receipt{At: begin + intoWindow, Units: n}
	return w.state(p, s), d
}

func (slidingWindow) give(p *Plan, s State, now, n int64, r headgate.Receipt) State {
	w, begin, _ := windowsOf(s).advance(p, now)
	switch {
	case r.At >= begin && r.At < begin+p.period:
		w.current = max(0, w.current-n)
	case r.At >= begin-p.period && r.At < begin:
		w.previous = max(0, w.previous-n)
	}
	return w.state(p, s)
}

func (slidingWindow) kind() Kind { return KindSlidingWindow }

func (slidingWindow) words(*Plan) (initial, growth int) { return windowsWords, 0 }

func (slidingWindow) prepare(*Plan) {}

func (slidingWindow) restore(*Plan, State) {}

func (slidingWindow) consumed(p *Plan, s State, now int64) (at, units int64) {
	w := windowsOf(s)
	atLatest, _, intoWindow := w.advance(p, w.latest)
	atNow, _, intoNow := w.advance(p, now)
	return consumption(w.latest, now, atLatest.used(p, intoWindow), atNow.used(p, intoNow))
}

func (slidingWindow) newState(p *Plan, at, units int64) State {
	return windows{latest: at, current: units}.state(p, nil)
}

func (slidingWindow) luaArgs(p *Plan, _ int64, _ uint64) (a, b int64) { return p.period, 0 }

func (slidingWindow) lua() luaIncludes {
	return luaIncludes{shared: []string{"exact", "store"}, room: "slidingwindowroom"}
}
