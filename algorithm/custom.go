package algorithm

import "github.com/headgate/headgate"

// A Custom is an algorithm that a program defines itself. memstore.Options.Algorithms registers it for a store.
//
// The methods are pure functions of their arguments: they read no clock, change no variables, and are safe for
// concurrent use. now is in µs since 1970, and never before the latest time at which the numbers of the key changed.
// The limit is valid; it has a Count, a Period and optionally a Burst. The store computes the rest of a decision, such
// as RetryAfter, from Used. limittest.RunAlgorithm checks that the methods keep these rules.
type Custom interface {
	// Used returns how many units count at the time now. It returns 0 for zero Numbers. While nothing is taken, the result
	// never increases, and it becomes 0 within MaxFade.
	Used(l headgate.Limit, s Numbers, now int64) int64
	// Take takes n units at the time now, which increases Used by n. The units may exceed the limit: the store has allowed
	// them, or they belong to a Charge.
	Take(l headgate.Limit, s Numbers, now, n int64) Numbers
	// Give gives back, at the time now, n units that were taken at the time takenAt. It decreases Used by at most n, and
	// by exactly n if nothing happened since. If the units no longer count, Give changes nothing.
	Give(l headgate.Limit, s Numbers, now, n, takenAt int64) Numbers
}

// Numbers are the state that a Custom algorithm keeps for a key. A new key has zero Numbers. When the algorithm or the
// Period of the key's limit changes, a store creates new Numbers and takes the consumed units again with Take. When
// only Count or Burst changes, the store keeps the Numbers.
type Numbers [4]int64

// MaxFade is the longest time, in µs, for which units taken under a Custom algorithm may count: 17 years.
const MaxFade = 1 << 49

// SetCustom makes p the plan of a limit whose algorithm is c. It is like Set, but for algorithms from
// headgate.FirstCustom on.
func (p *Plan) SetCustom(limit headgate.Limit, c Custom) error {
	standard := limit
	standard.Algorithm = headgate.TokenBucket // Validate refuses custom algorithms; token-bucket has the same fields
	if err := standard.Validate(); err != nil {
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
	p.head = p.newHead()
	return nil
}

// custom implements steps for a Custom algorithm. Its states can be converted to other limits without the algorithm:
// besides the Numbers, they hold how many units counted at the latest change, and when none of these will count.
type custom struct{ Custom }

// The indexes of the words in a state, and their number. The head is the first word.
const (
	customLatest = 1 // time of the latest change, in µs
	customUsed   = 2 // units that counted at the latest change
	customUntil  = 3 // time from which none of these units counts, in µs
	customFirst  = 4 // the first of the Numbers
	customWords  = customFirst + len(Numbers{})
)

// numbersAt returns the numbers of a state, and now or the time of their latest change, whichever is later.
func (custom) numbersAt(s State, now int64) (Numbers, int64) {
	if len(s) == 0 {
		return Numbers{}, now
	}
	return Numbers(s[customFirst:]), max(now, s[customLatest])
}

func (c custom) used(p *Plan, numbers Numbers, at int64) int64 {
	if numbers == (Numbers{}) {
		return 0
	}
	return max(0, c.Used(p.limit, numbers, at))
}

// fadeTime returns the first time, not before at, at which at most room units will count. It doubles the search
// interval until it contains that time, and then bisects it.
func (c custom) fadeTime(p *Plan, numbers Numbers, at, room int64) int64 {
	if c.used(p, numbers, at) <= room {
		return at
	}
	high, span := at, p.period
	low := at // at this time, more than room units count
	for {
		high = min(high+span, at+MaxFade)
		if high == at+MaxFade || c.used(p, numbers, high) <= room {
			break
		}
		low = high
		span *= 2
	}
	for low+1 < high {
		if mid := low + (high-low)/2; c.used(p, numbers, mid) <= room {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// newCustomState returns the state with numbers that changed at the time at. It reuses the memory of s.
func (c custom) newCustomState(p *Plan, s State, numbers Numbers, at int64) State {
	used := c.used(p, numbers, at)
	s = append(s[:0], p.head, at, used, c.fadeTime(p, numbers, at, 0))
	return append(s, numbers[:]...)
}

// describe returns the decision about n units, the numbers after it, and its time at: now, or the latest change if that
// is later. If the units are allowed, numbers includes them.
func (c custom) describe(p *Plan, s State, now, n int64) (d headgate.Decision, numbers Numbers, at int64) {
	numbers, at = c.numbersAt(s, now)
	used := c.used(p, numbers, at)
	d = headgate.Decision{Allowed: used+n <= p.capacity, Limit: p.capacity}
	switch {
	case !d.Allowed:
		d.RetryAfter = micros(c.fadeTime(p, numbers, at, p.capacity-n) - now)
	case n > 0:
		d.Receipt = headgate.Receipt{At: at, Units: n}
		numbers = c.Take(p.limit, numbers, at, n)
		used = c.used(p, numbers, at)
	}
	d.Remaining = p.capacity - used
	if used > 0 {
		d.ResetAfter = micros(c.fadeTime(p, numbers, at, 0) - now)
	}
	return d, numbers, at
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
	numbers, at := c.numbersAt(s, now)
	n = min(n, max(0, p.maxConsumed-c.used(p, numbers, at)))
	if n > 0 {
		numbers = c.Take(p.limit, numbers, at, n)
	}
	s = c.newCustomState(p, s, numbers, at)
	d := c.decide(p, s, now, 0)
	d.RetryAfter = 0 // the units were taken, so there is nothing to retry
	d.Receipt = headgate.Receipt{At: at, Units: n}
	return s, d
}

func (c custom) give(p *Plan, s State, now, n int64, r headgate.Receipt) State {
	numbers, at := c.numbersAt(s, now)
	return c.newCustomState(p, s, c.Give(p.limit, numbers, at, n, r.At), at)
}

func (custom) kind() Kind { return KindCustom }

func (custom) words(*Plan) (initial, growth int) { return customWords, 0 }

func (custom) prepare(*Plan) {}

func (custom) restore(*Plan, State) {}

func (custom) consumed(_ *Plan, s State, now int64) (at, units int64) { return s.consumedCustom(now) }

// consumedCustom is [State.Consumed] for a state of KindCustom.
func (s State) consumedCustom(now int64) (at, units int64) {
	if now >= s[customUntil] {
		return max(s[customLatest], now), 0
	}
	return s[customLatest], s[customUsed]
}

func (c custom) newState(p *Plan, at, units int64) State {
	var numbers Numbers
	if units > 0 {
		numbers = c.Take(p.limit, numbers, at, units)
	}
	return c.newCustomState(p, nil, numbers, at)
}

// luaArgs is never called, because custom algorithms have no script.
func (custom) luaArgs(*Plan, int64, uint64) (a, b int64) { return 0, 0 }

func (custom) lua() luaIncludes { return luaIncludes{} }
