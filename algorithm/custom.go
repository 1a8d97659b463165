package algorithm

import "github.com/headgate/headgate"

// A Custom is an algorithm of a program that uses this module. memstore.Options.Algorithms registers it for a store.
//
// Its methods are pure functions of their arguments: they read no clock, keep nothing, and are safe for concurrent use.
// Times are in µs since 1970, and never before the latest time at which the numbers of the key changed. The limit is
// valid; it has a Count, a Period and perhaps a Burst. The store computes the rest of a decision, such as RetryAfter,
// from Used. limittest.RunAlgorithm checks that the methods keep their promises.
type Custom interface {
	// Used returns how many units count at the time now. It is 0 for zero Numbers. While nothing is taken it never
	// increases, and it becomes 0 within MaxFade.
	Used(l headgate.Limit, s Numbers, now int64) int64
	// Take takes n units at the time now, after which Used is higher by n. The store has decided that they are allowed,
	// or charges them beyond the limit.
	Take(l headgate.Limit, s Numbers, now, n int64) Numbers
	// Give gives back n units at the time now, which were taken at the time taken. Used is lower by n if nothing happened
	// since, and never by more. Units that do not count any more change nothing: the method decides that from the numbers
	// and the time taken.
	Give(l headgate.Limit, s Numbers, now, n, taken int64) Numbers
}

// Numbers are the state that a Custom algorithm keeps for a key. The zero Numbers are those of a new key. When the
// Period of the key's limit or its algorithm changes, a store creates new Numbers and takes the consumed units again. A
// changed Count or Burst does not replace them.
type Numbers [4]int64

// MaxFade is the longest time, in µs, for which units taken under a Custom algorithm may count: 17 years.
const MaxFade = 1 << 49

// SetCustom makes p the plan of a limit whose algorithm is c. It is Set for algorithms from headgate.FirstCustom on.
func (p *Plan) SetCustom(limit headgate.Limit, c Custom) error {
	general := limit
	general.Algorithm = headgate.TokenBucket // has the same fields
	if err := general.Validate(); err != nil {
		return err
	}
	*p = Plan{
		limit:    limit,
		kind:     KindCustom,
		steps:    custom{c},
		capacity: limit.Capacity(),
		period:   limit.Period.Microseconds(),
	}
	p.maxConsumed = p.capacity * (1 + headgate.MaxDebt)
	p.rate = newRate(limit.Count, p.period)
	p.head = p.headOf()
	return nil
}

// custom implements steps for a Custom algorithm. Its state has the units that counted at the latest change, and the
// time at which none of them counts any more, so that another limit can carry it over without the algorithm.
type custom struct{ Custom }

const (
	customLatest = 1
	customUsed   = 2
	customUntil  = 3
	customFirst  = 4
	customWords  = customFirst + len(Numbers{})
)

// at returns the numbers of a state, and now or the time of their latest change, whichever is later.
func (custom) at(s State, now int64) (Numbers, int64) {
	if len(s) == 0 {
		return Numbers{}, now
	}
	return Numbers(s[customFirst:]), max(now, s[customLatest])
}

func (c custom) used(p *Plan, n Numbers, at int64) int64 {
	if n == (Numbers{}) {
		return 0
	}
	return max(0, c.Used(p.limit, n, at))
}

// fadeTime returns the first time, not before at, at which at most room units count. It searches by doubling, then
// halving.
func (c custom) fadeTime(p *Plan, n Numbers, at, room int64) int64 {
	if c.used(p, n, at) <= room {
		return at
	}
	high, span := at, p.period
	low := at // more than room units count
	for {
		high = min(high+span, at+MaxFade)
		if high == at+MaxFade || c.used(p, n, high) <= room {
			break
		}
		low = high
		span *= 2
	}
	for low+1 < high {
		if mid := low + (high-low)/2; c.used(p, n, mid) <= room {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

func (c custom) newCustomState(p *Plan, s State, n Numbers, at int64) State {
	used := c.used(p, n, at)
	s = append(s[:0], p.head, at, used, c.fadeTime(p, n, at, 0))
	return append(s, n[:]...)
}

// describe returns the decision about units at a time, and the numbers after they were taken if it allows them.
func (c custom) describe(p *Plan, s State, now, units int64) (headgate.Decision, Numbers, int64) {
	n, at := c.at(s, now)
	used := c.used(p, n, at)
	d := headgate.Decision{Allowed: used+units <= p.capacity, Limit: p.capacity}
	switch {
	case !d.Allowed:
		d.RetryAfter = micros(c.fadeTime(p, n, at, p.capacity-units) - now)
	case units > 0:
		d.Receipt = headgate.Receipt{At: at, Units: units}
		n = c.Take(p.limit, n, at, units)
		used = c.used(p, n, at)
	}
	d.Remaining = p.capacity - used
	if used > 0 {
		d.ResetAfter = micros(c.fadeTime(p, n, at, 0) - now)
	}
	return d, n, at
}

func (c custom) decide(p *Plan, s State, now, n int64) headgate.Decision {
	d, _, _ := c.describe(p, s, now, n)
	return d
}

func (c custom) take(p *Plan, s State, now, n int64, _ uint64) (State, headgate.Decision) {
	d, numbers, at := c.describe(p, s, now, n)
	if !d.Allowed {
		return s, d
	}
	return c.newCustomState(p, s, numbers, at), d
}

func (c custom) charge(p *Plan, s State, now, n int64) (State, headgate.Decision) {
	numbers, at := c.at(s, now)
	n = min(n, max(0, p.maxConsumed-c.used(p, numbers, at)))
	if n > 0 {
		numbers = c.Take(p.limit, numbers, at, n)
	}
	s = c.newCustomState(p, s, numbers, at)
	d := c.decide(p, s, now, 0)
	d.RetryAfter = 0
	d.Receipt = headgate.Receipt{At: at, Units: n}
	return s, d
}

func (c custom) give(p *Plan, s State, now, n int64, r headgate.Receipt) State {
	numbers, at := c.at(s, now)
	return c.newCustomState(p, s, c.Give(p.limit, numbers, at, n, r.At), at)
}

func (custom) kind() Kind { return KindCustom }

func (custom) words(*Plan) (first, growth int) { return customWords, 0 }

func (custom) prepare(*Plan) {}

func (custom) restore(*Plan, State) {}

func (custom) consumed(_ *Plan, s State, now int64) (at, units int64) { return s.consumedCustom(now) }

// consumedCustom is Consumed for a state of KindCustom.
func (s State) consumedCustom(now int64) (at, units int64) {
	if now >= s[customUntil] {
		return max(s[customLatest], now), 0
	}
	return s[customLatest], s[customUsed]
}

func (c custom) newState(p *Plan, at, units int64) State {
	var n Numbers
	if units > 0 {
		n = c.Take(p.limit, n, at, units)
	}
	return c.newCustomState(p, nil, n, at)
}

// Custom algorithms have no script.
func (custom) luaArgs(*Plan, int64, uint64) (a, b int64) { return 0, 0 }

func (custom) lua() luaIncludes { return luaIncludes{} }
