package algorithm

import "github.com/headgate/headgate"

// slidingWindow counts the units of the current window and of the one before. It estimates the consumption of the last
// period as current + previous × (the part of the previous window that the last period still covers). That assumes that
// the previous window's units were spread evenly: a client that sends them all at its end can get twice Count within a
// period.
type slidingWindow struct{}

// windows is the decoded state: the units consumed in the window of the latest take, charge or refund, and in the one
// before it.
type windows struct {
	latest            int64 // µs
	current, previous int64 // units
}

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

func (w windows) into(p *Plan, s State) State {
	return append(s[:0], p.head, w.latest, w.current, w.previous)
}

// advance returns the windows at now, or at their latest time if that is later; when the current one began; and how far
// into it that time is.
func (w windows) advance(p *Plan, now int64) (advanced windows, begin, into int64) {
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

// used returns the units that count as consumed in the last period. The share of the previous window is rounded to the
// nearest unit, a half down: rounded up, its last unit would count until the current window ends, and a busy key would
// get one unit less than Count in every window.
func (w windows) used(p *Plan, into int64) int64 {
	return w.current + mulDivNear(w.previous, p.period-into, p.period)
}

func (w windows) describe(p *Plan, begin, into, now, n int64) headgate.Decision {
	used := w.used(p, into)
	d := headgate.Decision{Allowed: used+n <= p.capacity, Limit: p.capacity}
	if d.Allowed {
		if n > 0 {
			d.Receipt = headgate.Receipt{At: begin + into, Units: n}
		}
		used += n
		w.current += n
	} else {
		d.RetryAfter = micros(w.admits(p, begin, n) - now)
	}
	d.Remaining = p.capacity - used
	d.ResetAfter = micros(w.gone(p, begin, now))
	return d
}

// admits returns when n more units will be allowed if nothing else is taken.
func (w windows) admits(p *Plan, begin, n int64) int64 {
	if room := p.capacity - w.current - n; room >= 0 {
		return begin + p.fades(w.previous, room)
	}
	return begin + p.period + p.fades(w.current, p.capacity-n)
}

// fades returns how far into a window the units of the previous one count as no more than room.
func (p *Plan) fades(previous, room int64) int64 {
	if previous <= room {
		return 0
	}
	return p.period - mulDivFloor(2*room+1, p.period, 2*previous, p.period) // when room + ½ units are left of it
}

// gone returns how long it takes from now until the units of both windows count as 0.
func (w windows) gone(p *Plan, begin, now int64) int64 {
	if w.current > 0 {
		return begin + p.period + p.fades(w.current, 0) - now
	}
	return max(0, begin+p.fades(w.previous, 0)-now)
}

func (slidingWindow) decide(p *Plan, s State, now, n int64) headgate.Decision {
	w, begin, into := windowsOf(s).advance(p, now)
	return w.describe(p, begin, into, now, n)
}

func (slidingWindow) take(p *Plan, s State, now, n int64, _ uint64) (State, headgate.Decision) {
	w, begin, into := windowsOf(s).advance(p, now)
	d := w.describe(p, begin, into, now, n)
	if !d.Allowed {
		return s, d
	}
	w.current += n
	return w.into(p, s), d
}

func (slidingWindow) charge(p *Plan, s State, now, n int64) (State, headgate.Decision) {
	w, begin, into := windowsOf(s).advance(p, now)
	n = min(n, max(0, p.maxConsumed-w.used(p, into)))
	w.current += n
	d := w.describe(p, begin, into, now, 0)
	d.RetryAfter = 0
	d.Receipt = headgate.Receipt{At: begin + into, Units: n}
	return w.into(p, s), d
}

func (slidingWindow) give(p *Plan, s State, now, n int64, r headgate.Receipt) State {
	w, begin, _ := windowsOf(s).advance(p, now)
	switch {
	case r.At >= begin && r.At < begin+p.period:
		w.current = max(0, w.current-n)
	case r.At >= begin-p.period && r.At < begin:
		w.previous = max(0, w.previous-n)
	}
	return w.into(p, s)
}

func (slidingWindow) kind() Kind { return KindWindows }

func (slidingWindow) words(*Plan) (first, growth int) { return windowsWords, 0 }

func (slidingWindow) prepare(*Plan) {}

func (slidingWindow) restore(*Plan, State) {}

func (slidingWindow) consumed(p *Plan, s State, now int64) (at, units int64) {
	w := windowsOf(s)
	then, _, into := w.advance(p, w.latest)
	later, _, intoLater := w.advance(p, now)
	return consumed(w.latest, now, then.used(p, into), later.used(p, intoLater))
}

func (slidingWindow) place(p *Plan, at, units int64) State {
	return windows{latest: at, current: units}.into(p, nil)
}

func (slidingWindow) luaArgs(p *Plan, _ int64, _ uint64) (a, b int64) { return p.period, 0 }

func (slidingWindow) lua() luaIncludes {
	return luaIncludes{before: []string{"exact", "store"}, room: "slidingwindowroom"}
}
