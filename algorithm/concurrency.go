package algorithm

import "github.com/headgate/headgate"

// concurrency admits Count units in flight at once. Each take creates a lease, which ends when its units are given
// back. If its holder has crashed, the lease expires one TTL after it was taken or last renewed. concurrency implements
// steps.
type concurrency struct{ direct }

// A state of concurrency holds the latest time at which a lease was taken or renewed, and then the leases in order of
// expiry. A lease has three words.
const (
	leaseLatest = 0 // index of the latest time, in µs
	leaseFirst  = 1 // index of the first lease

	// Indexes in a lease, and its length.
	leaseExpiry = 0 // time in µs
	leaseUnits  = 1
	leaseID     = 2
	leaseWords  = 3
)

// liveLeases returns the time at which it looks at the state: now, or the state's latest time if that is later. It also
// returns the index of the first lease that has not expired at that time, and the units of all such leases.
func (s State) liveLeases(now int64) (at int64, first int, units int64) {
	at, first = now, leaseFirst
	if len(s) > 0 {
		at = max(now, s[leaseLatest])
	}
	for first < len(s) && s[first+leaseExpiry] <= at {
		first += leaseWords
	}
	for i := first; i < len(s); i += leaseWords {
		units += s[i+leaseUnits]
	}
	return at, first, units
}

func (concurrency) decide(p *Plan, s State, now, n int64) headgate.Decision {
	at, first, used := s.liveLeases(now)
	d := headgate.Decision{Allowed: used+n <= p.capacity, Limit: p.capacity, Remaining: p.capacity - used}
	lastExpiry := now
	if first < len(s) {
		lastExpiry = s[len(s)-leaseWords+leaseExpiry]
	}
	switch {
	case !d.Allowed:
		// Find the lease after whose expiry there is room for n units.
		i := first
		for room := p.capacity - n; ; i += leaseWords {
			if used -= s[i+leaseUnits]; used <= room {
				break
			}
		}
		d.RetryAfter = micros(s[i+leaseExpiry] - now)
	case n > 0:
		d.Remaining -= n
		lastExpiry = max(lastExpiry, at+p.period)
	}
	d.ResetAfter = micros(lastExpiry - now)
	return d
}

func (c concurrency) takeInto(d *headgate.Decision, p *Plan, s State, now, n int64, lease uint64) State {
	if *d = c.decide(p, s, now, n); !d.Allowed {
		return s
	}
	at, first, _ := s.liveLeases(now)
	d.Receipt = headgate.Receipt{At: at, Units: n, Lease: lease}
	return s.addLease(at, first, at+p.period, n, lease)
}

// renew extends a lease by another TTL. An expired or unknown lease is taken again if n units are allowed.
func (c concurrency) renew(p *Plan, s State, now, n int64, lease uint64) (State, bool) {
	at, first, _ := s.liveLeases(now)
	for i := first; i < len(s); i += leaseWords {
		if s[i+leaseID] == int64(lease) {
			n = s[i+leaseUnits]
			s = append(s[:i], s[i+leaseWords:]...)
			return s.addLease(at, first, at+p.period, n, lease), true
		}
	}
	if n > p.capacity {
		return s, false
	}
	var d headgate.Decision
	s = c.takeInto(&d, p, s, now, n, lease)
	return s, d.Allowed
}

// addLease adds a lease of n units, and removes the expired leases, which are before index first. at becomes the
// state's latest time.
func (s State) addLease(at int64, first int, expiry, n int64, lease uint64) State {
	if len(s) == 0 {
		s = append(s, at)
	} else {
		s = append(s[:leaseFirst], s[first:]...)
		s[leaseLatest] = at
	}
	s = append(s, expiry, n, int64(lease))
	// Keep the leases in order of expiry. The new lease may not be the last to expire if the TTL has been shortened.
	for i := len(s) - leaseWords; i > leaseFirst && s[i-leaseWords+leaseExpiry] > s[i+leaseExpiry]; i -= leaseWords {
		for w := range leaseWords {
			s[i+w], s[i-leaseWords+w] = s[i-leaseWords+w], s[i+w]
		}
	}
	return s
}

// charge is never called: Plan.Charge returns an error.
func (c concurrency) charge(p *Plan, s State, now, _ int64) (State, headgate.Decision) {
	return s, c.decide(p, s, now, 0)
}

func (concurrency) give(_ *Plan, s State, _, n int64, r headgate.Receipt) State {
	for i := leaseFirst; i < len(s); i += leaseWords {
		if s[i+leaseID] != int64(r.Lease) {
			continue
		}
		s[i+leaseUnits] -= n
		if s[i+leaseUnits] <= 0 {
			s = append(s[:i], s[i+leaseWords:]...)
		}
		break
	}
	return s
}

func (concurrency) kind() Kind { return KindLeases }

func (concurrency) words(*Plan) (initial, growth int) { return leaseFirst + leaseWords, leaseWords }

// prepare sets the period to the TTL.
func (concurrency) prepare(p *Plan) {
	p.period = p.limit.TTL.Microseconds()
	if p.period == 0 {
		p.period = headgate.DefaultTTL.Microseconds()
	}
}

// restore does nothing: leases do not count as consumption and are never converted to another limit.
func (concurrency) restore(*Plan, State) {}

func (concurrency) consumed(_ *Plan, _ State, now int64) (at, units int64) { return now, 0 }

func (concurrency) newState(*Plan, int64, int64) State { return nil }

func (concurrency) luaArgs(p *Plan, _ int64, lease uint64) (a, b int64) {
	return p.period, int64(lease)
}

func (concurrency) lua() luaIncludes { return luaIncludes{shared: []string{"store", "list"}} }
