package algorithm

import "github.com/headgate/headgate"

// slidingLog remembers when each unit was taken, and admits at most Count units in every period. Denied requests are
// not logged, so a client that keeps retrying is admitted as early as one that waits.
type slidingLog struct{ direct }

// The indexes of the words in a state, after the head. The number in the head is the period.
const (
	logUnits   = iota + 1 // units of the live entries, which are those from logFirst on
	logLatest             // time of the latest take, charge or refund
	logFirst              // index of the first live entry
	logEntries            // the first entry; an entry is a time and the units taken then, and the oldest is first
)

// liveEntries returns the index of the first entry that is later than the time after, and the sum of the units from
// that entry on.
func (s State) liveEntries(after int64) (first int, units int64) {
	first, units = int(s[logFirst]), s[logUnits]
	for first < len(s) && s[first] <= after {
		units -= s[first+1]
		first += 2
	}
	return first, units
}

// describeLog writes the decision about n units at now, in µs, to the zero d. It takes nothing.
func (p *Plan) describeLog(d *headgate.Decision, s State, now, n int64) {
	d.Limit = p.capacity
	at, first, used := now, logEntries, int64(0)
	if len(s) > 0 {
		at = max(now, s[logLatest])
		first, used = s.liveEntries(at - p.period)
	}
	if used+n <= p.capacity {
		d.Allowed = true
		d.Remaining = p.capacity - used - n
		if n > 0 {
			d.Receipt = headgate.Receipt{At: at, Units: n}
			d.ResetAfter = micros(at + p.period - now)
			return
		}
	} else {
		d.Remaining = p.capacity - used
		i := first
		// Find the entry after whose expiry there is room for n units. There is one, because n is at most the capacity.
		for room := p.capacity - n; ; i += 2 {
			if used -= s[i+1]; used <= room {
				break
			}
		}
		d.RetryAfter = micros(s[i] + p.period - now)
	}
	if first < len(s) {
		d.ResetAfter = micros(s[len(s)-2] + p.period - now)
	}
}

// appendLog adds an entry of n units at now, or at the latest time of the state if that is later. It removes entries
// that no longer count if they are most of the log.
func (p *Plan) appendLog(s State, now, n int64) State {
	if len(s) == 0 {
		return append(s, p.head, n, now, logEntries, now, n)
	}
	now = max(now, s[logLatest])
	first, units := s.liveEntries(now - p.period)
	if first-logEntries > len(s)/2 { // most entries have expired, so moving the live ones is cheap
		s = append(s[:logEntries], s[first:]...)
		first = logEntries
	}
	s[logUnits], s[logLatest], s[logFirst] = units+n, now, int64(first)
	if first < len(s) && s[len(s)-2] == now {
		s[len(s)-1] += n
		return s
	}
	return append(s, now, n)
}

func (slidingLog) decide(p *Plan, s State, now, n int64) (d headgate.Decision) {
	p.describeLog(&d, s, now, n)
	return d
}

func (slidingLog) takeInto(d *headgate.Decision, p *Plan, s State, now, n int64) State {
	if p.describeLog(d, s, now, n); !d.Allowed {
		return s
	}
	return p.appendLog(s, now, n)
}

func (l slidingLog) charge(p *Plan, s State, now, n int64) (State, headgate.Decision) {
	used := p.capacity - l.decide(p, s, now, 0).Remaining
	if n = min(n, max(0, p.maxConsumed-used)); n > 0 {
		s = p.appendLog(s, now, n)
	} else { // s already has the largest debt, so it is not empty
		s[logLatest] = max(now, s[logLatest])
	}
	d := l.decide(p, s, now, 0)
	d.RetryAfter = 0 // the units were taken, so there is nothing to retry
	d.Receipt = headgate.Receipt{At: s[logLatest], Units: n}
	return s, d
}

func (slidingLog) give(p *Plan, s State, now, n int64, r headgate.Receipt) State {
	s[logLatest] = max(now, s[logLatest])
	first, _ := s.liveEntries(s[logLatest] - p.period)
	for i := len(s) - 2; i >= first && s[i] >= r.At; i -= 2 { // the entries from the latest to the time of the take
		if s[i] != r.At {
			continue
		}
		returned := min(n, s[i+1])
		s[logUnits] -= returned
		if s[i+1] -= returned; s[i+1] == 0 {
			s = append(s[:i], s[i+2:]...)
		}
		break
	}
	return s
}

func (slidingLog) kind() Kind { return KindSlidingLog }

func (slidingLog) words(*Plan) (initial, growth int) { return logEntries + 2, 2 }

func (slidingLog) prepare(*Plan) {}

func (slidingLog) restore(*Plan, State) {}

func (slidingLog) consumed(p *Plan, s State, now int64) (at, units int64) {
	at = s[logLatest]
	_, units = s.liveEntries(at - p.period)
	_, unitsNow := s.liveEntries(max(now, at) - p.period)
	return consumption(at, now, units, unitsNow)
}

func (slidingLog) newState(p *Plan, at, units int64) State {
	if units = min(units, p.maxConsumed); units == 0 { // the units expire together, so more have no effect
		return State{p.head, 0, at, logEntries}
	}
	return State{p.head, units, at, logEntries, at, units}
}

// luaArgs returns the period as a. The script needs nothing else.
func (slidingLog) luaArgs(p *Plan, _ int64, _ uint64) (a, b int64) { return p.period, 0 }

func (slidingLog) lua() luaIncludes { return luaIncludes{shared: []string{"store", "list"}} }
