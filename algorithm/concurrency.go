package algorithm

import "github.com/headgate/headgate"

// concurrency admits Count units in flight at once. A slot is held under a lease until it is given back. If its holder
// has crashed, the lease expires when the TTL has passed since it was taken or last renewed.
type concurrency struct{}

// A state of concurrency is the latest time at which a slot was taken, and the leases in order of expiry. A lease is
// its expiry time in µs, the units it holds, and its ID.
const (
	leaseLatest = iota
	leaseFirst

	leaseWords = 3
)

// heldSlots returns now, or the state's latest time if that is later; the index of the first lease that has not expired
// by then; and the units held by that lease and those after it.
func (s State) heldSlots(now int64) (at int64, first int, units int64) {
	at, first = now, leaseFirst
	if len(s) > 0 {
		at = max(now, s[leaseLatest])
	}
	for first < len(s) && s[first] <= at {
		first += leaseWords
	}
	for i := first; i < len(s); i += leaseWords {
		units += s[i+1]
	}
	return at, first, units
}

func (concurrency) decide(p *Plan, s State, now, n int64) headgate.Decision {
	at, first, used := s.heldSlots(now)
	d := headgate.Decision{Allowed: used+n <= p.capacity, Limit: p.capacity, Remaining: p.capacity - used}
	reset := now
	if first < len(s) {
		reset = s[len(s)-leaseWords]
	}
	switch {
	case !d.Allowed:
		i := first
		for room := p.capacity - n; ; i += leaseWords {
			if used -= s[i+1]; used <= room {
				break
			}
		}
		d.RetryAfter = micros(s[i] - now)
	case n > 0:
		d.Remaining -= n
		reset = max(reset, at+p.period)
	}
	d.ResetAfter = micros(reset - now)
	return d
}

func (c concurrency) take(p *Plan, s State, now, n int64, lease uint64) (State, headgate.Decision) {
	d := c.decide(p, s, now, n)
	if !d.Allowed {
		return s, d
	}
	at, first, _ := s.heldSlots(now)
	d.Receipt = headgate.Receipt{At: at, Units: n, Lease: lease}
	return s.addLease(at, first, at+p.period, n, lease), d
}

// renew extends a lease by another TTL. An expired or unknown lease is taken again if n units are allowed.
func (c concurrency) renew(p *Plan, s State, now, n int64, lease uint64) (State, bool) {
	at, first, _ := s.heldSlots(now)
	for i := first; i < len(s); i += leaseWords {
		if s[i+2] == int64(lease) {
			n = s[i+1]
			s = append(s[:i], s[i+leaseWords:]...)
			return s.addLease(at, first, at+p.period, n, lease), true
		}
	}
	if n > p.capacity {
		return s, false
	}
	s, d := c.take(p, s, now, n, lease)
	return s, d.Allowed
}

// addLease adds a lease of n units, and removes the leases before index first. at becomes the state's latest time.
func (s State) addLease(at int64, first int, expiry, n int64, lease uint64) State {
	if len(s) == 0 {
		s = append(s, at)
	} else {
		s = append(s[:leaseFirst], s[first:]...)
		s[leaseLatest] = at
	}
	s = append(s, expiry, n, int64(lease))
	for i := len(s) - leaseWords; i > leaseFirst && s[i-leaseWords] > s[i]; i -= leaseWords {
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
		if s[i+2] != int64(r.Lease) {
			continue
		}
		if s[i+1] -= n; s[i+1] <= 0 {
			s = append(s[:i], s[i+leaseWords:]...)
		}
		break
	}
	return s
}

func (concurrency) kind() Kind { return KindLeases }

func (concurrency) words(*Plan) (first, growth int) { return leaseFirst + leaseWords, leaseWords }

func (concurrency) prepare(p *Plan) {
	p.period = p.limit.TTL.Microseconds()
	if p.period == 0 {
		p.period = headgate.DefaultTTL.Microseconds()
	}
}

// restore does nothing: leases do not count as consumption and are never carried over to another limit.
func (concurrency) restore(*Plan, State) {}

func (concurrency) consumed(_ *Plan, _ State, now int64) (at, units int64) { return now, 0 }

func (concurrency) newState(*Plan, int64, int64) State { return nil }

func (concurrency) luaArgs(p *Plan, _ int64, lease uint64) (a, b int64) {
	return p.period, int64(lease)
}

func (concurrency) lua() luaIncludes { return luaIncludes{before: []string{"store", "list"}} }
