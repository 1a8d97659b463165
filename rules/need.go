package rules

import (
	"math/bits"
	"strconv"
	"time"

	"github.com/headgate/headgate"
)

// A need is what a rule asks of every limit that is used under it.
type need struct {
	cost    int64
	mode    Consistency
	scope   Scope
	split   int
	charges string        // the field because of which units are charged afterwards, empty if there is none
	wait    time.Duration // for how long requests are held at most, 0 if they are not
	safe    safeKind
}

// safeKind is what the limit counts that local fallback goes by.
type safeKind uint8

const (
	safeNone     safeKind = iota // there is none
	safeInTime                   // what passes in a time
	safeInFlight                 // what is in flight
)

func needOf(r *Rule) need {
	n := need{cost: r.Cost.least(), mode: r.Consistency, scope: r.Scope, split: r.Split}
	switch {
	case r.Cost.ResponseHeader != "":
		n.charges = "cost.response_header"
	case r.CountRejected:
		n.charges = "count_rejected"
	}
	if r.OnLimit.Action == Delay {
		n.wait = r.OnLimit.MaxWait
	}
	switch {
	case r.Safe == nil:
	case r.Safe.Algorithm == headgate.Concurrency:
		n.safe = safeInFlight
	default:
		n.safe = safeInTime
	}
	return n
}

// validate says what is wrong with limits by themselves, and under the rule.
func (n *need) validate(limits []Limit, at *place, p *problems) {
	validateLimits(limits, at, p)
	for i := range limits {
		if limits[i].Validate() == nil {
			if value, want := n.refuses(&limits[i]); want != "" {
				p.add(at.element(i), value, want)
			}
		}
	}
}

// refuses says why a limit cannot be used; want is empty if it can.
func (n *need) refuses(l *Limit) (value, want string) {
	for _, asks := range []func(*Limit) string{n.refusesMode, n.refusesCost, n.refusesDelay, n.refusesSafe, n.refusesSplit} {
		if want := asks(l); want != "" {
			return Quote(l.String()), want
		}
	}
	return "", ""
}

func (n *need) refusesMode(l *Limit) string {
	if ok, why := Compatible(n.mode, l.Algorithm); !ok {
		return "consistency " + modesOf(l.Algorithm) + " for " + l.Algorithm.String() + ", not " + n.mode.String() + ": " + why
	}
	if ok, why := Compatible(Async, l.Algorithm); !ok && n.scope == ScopeGlobal {
		return "scope: region for " + l.Algorithm.String() + ": between regions counters are as under async, and " + why
	}
	return ""
}

func (n *need) refusesCost(l *Limit) string {
	switch {
	case n.charges != "" && l.Algorithm == headgate.Concurrency:
		return "another algorithm, or no " + n.charges + ": a place under concurrency cannot be charged afterwards"
	case n.cost > l.Capacity():
		return "room for " + strconv.FormatInt(n.cost, 10) + " at once, which is what a request costs; otherwise none could ever pass"
	}
	return ""
}

func (n *need) refusesDelay(l *Limit) string {
	switch {
	case n.wait <= 0:
		return ""
	case !holds(l.Algorithm):
		return "token-bucket, gcra or leaky-bucket, or on_limit: reject instead of delay: under " + l.Algorithm.String() +
			" no place in line can be reserved"
	case l.Algorithm != headgate.LeakyBucket && n.extended(l).Validate() != nil:
		return "a lower rate or burst: together with what comes back in the delay it is more than can be counted"
	}
	return ""
}

// extended returns a limit with room for what comes back in the time for which requests are held. (A leaky-bucket is a
// line already.)
func (n *need) extended(l *Limit) headgate.Limit {
	made := l.Limit
	made.Burst = headgate.MaxCount + 1
	period := uint64(l.Period.Microseconds())
	if high, low := bits.Mul64(uint64(l.Count), uint64(n.wait.Microseconds())); high < period {
		if more, _ := bits.Div64(high, low, period); more <= headgate.MaxCount {
			made.Burst = l.Capacity() + int64(more)
		}
	}
	return made
}

func (n *need) refusesSafe(l *Limit) string {
	switch inFlight := l.Algorithm == headgate.Concurrency; {
	case n.safe == safeInTime && inFlight:
		return "a limit that counts in time, as safe does, or no safe: it stands in for every limit, and does not count what is in flight"
	case n.safe == safeInFlight && !inFlight:
		return "a limit of what is in flight, as safe is, or no safe: it stands in for every limit, and nobody would give its places back"
	}
	return ""
}

func (n *need) refusesSplit(l *Limit) string {
	parts := int64(n.split)
	switch {
	case parts < 2:
		return ""
	case l.Algorithm == headgate.LeakyBucket:
		return "another algorithm, or no split: each part would space what passes on its own"
	case l.Count < parts || l.Capacity()/parts < n.cost:
		return "at least " + strconv.FormatInt(n.cost*parts, 10) + " units, so that each of the " + strconv.Itoa(n.split) +
			" parts has room for the cost of a request, " + strconv.FormatInt(n.cost, 10)
	}
	share := l.Limit
	if share.Count /= parts; share.Burst != 0 {
		share.Burst = (share.Burst + parts - 1) / parts
	}
	if share.Validate() != nil {
		return "a smaller burst, or no split: that of each of the " + strconv.Itoa(n.split) + " parts would take too long to refill"
	}
	return ""
}

// holds tells whether requests can be held until their turn under an algorithm: under those that give back at a steady
// rate, a place in line is a share of what comes back next, and is reserved by taking it ahead.
func holds(a headgate.Algorithm) bool {
	return a == headgate.TokenBucket || a == headgate.GCRA || a == headgate.LeakyBucket
}
