package guard

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
)

const (
	gateSets = 1024 // a power of two
	gateWays = 8
)

// A gate keeps callers of one key from rushing the store: no more units are under way at once than could pass. It knows
// keys by their hash alone: two that share one only wait for each other.
type gate struct {
	sets [gateSets]atomic.Pointer[gateSet] // nil until they are of use
}

func (g *gate) at(hash uint64) *atomic.Pointer[gateSet] { return &g.sets[hash/denySets%gateSets] }

// used returns the places for a hash, nil if there was no use for them yet.
func (g *gate) used(hash uint64) *gateSet { return g.at(hash).Load() }

// set returns the places for a hash.
func (g *gate) set(hash uint64) *gateSet {
	at := g.at(hash)
	if at.Load() == nil {
		at.CompareAndSwap(nil, new(gateSet))
	}
	return at.Load()
}

type gateSet struct {
	mu     sync.Mutex
	places [gateWays]place
}

// A place is that of one key.
type place struct {
	hash  uint64
	limit headgate.Limit

	calls int   // under way
	units int64 // that these ask for
	sent  uint64

	// What could pass besides the calls under way, in units, at a time in µs: a guess that follows the limit and is set
	// right by answers.
	room  float64
	since int64
	// heard is how many calls had been sent when the latest answer came. What an earlier one says may be out of date.
	heard uint64
	// scouting tells that a call is under way that may well be denied.
	scouting bool
	answers  uint64 // so many were heard

	first, last *waiter
}

// A turn is leave to call the store. The zero turn is that of a call that is not held back.
type turn struct {
	set   *gateSet
	way   int
	no    uint64
	units int64
	scout bool
}

// A waiter is a caller that waits for its turn, or for the response to another caller.
type waiter struct {
	units   int64
	sent    uint64 // calls sent when it arrived
	answers uint64 // responses received when it arrived
	woken   chan wake
	gone    bool
	next    *waiter
}

// A wake is the reason why a waiter is woken: its turn has come, or there is a response.
type wake struct {
	turn   turn
	denial *denial // the denial in the response, or nil
	shared bool    // the store was asked after the waiter arrived
	failed bool    // there is no response
}

// An outcome is what came of a turn.
type outcome uint8

const (
	unused  outcome = iota // the store was not asked
	unheard                // it did not answer
	vague                  // its answer says nothing about the key
	taken                  // it took the units
	untaken                // it did not
)

// An answer is what a turn has brought.
type answer struct {
	outcome   outcome
	remaining int64 // if it is known
	asked     int64 // µs
	denial    *denial
}

// enter asks for a turn. If it is not given yet, it returns the waiter that will get it, unless force is set.
func (g *gate) enter(hash uint64, c *headgate.Check, now int64, force bool) (turn, *waiter) {
	set := g.set(hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	way := set.find(hash)
	if way < 0 {
		if way = set.idle(); way < 0 {
			return turn{}, nil
		}
		set.places[way] = place{hash: hash}
	}
	p := &set.places[way]
	if p.limit != c.Limit {
		p.limit = c.Limit
		p.renew(now)
	}
	p.refill(now)
	for p.first != nil && p.first.gone {
		p.first = p.first.next
	}
	units := min(c.Cost, c.Limit.Capacity())
	if force || p.first == nil && (p.admits(units) || p.calls == 0) {
		return set.start(way, units), nil
	}
	w := &waiter{units: units, sent: p.sent, answers: p.answers, woken: make(chan wake, 1)}
	if p.first == nil {
		p.first = w
	} else {
		p.last.next = w
	}
	p.last = w
	return turn{}, w
}

func (s *gateSet) find(hash uint64) int {
	for i := range s.places {
		if s.places[i].hash == hash && s.places[i].limit.Count != 0 {
			return i
		}
	}
	return -1
}

// idle returns a place that nobody needs, the one that was of use longest ago, or −1.
func (s *gateSet) idle() int {
	best := -1
	for i := range s.places {
		p := &s.places[i]
		if p.calls == 0 && p.first == nil && (best < 0 || p.since < s.places[best].since) {
			best = i
		}
	}
	return best
}

// start gives a turn. If its units are more than could pass, it is a scout's.
func (s *gateSet) start(way int, units int64) turn {
	p := &s.places[way]
	scout := !p.admits(units)
	p.scouting = p.scouting || scout
	p.calls++
	p.units += units
	p.room -= float64(units)
	p.sent++
	return turn{set: s, way: way, no: p.sent, units: units, scout: scout}
}

// renew forgets what was known.
func (p *place) renew(now int64) {
	p.room, p.since, p.heard = float64(p.limit.Capacity())-float64(p.units), now, p.sent
}

// back returns how many units come back in so many µs.
func (p *place) back(elapsed int64) float64 {
	if elapsed <= 0 || p.limit.Algorithm == headgate.Concurrency {
		return 0
	}
	return float64(elapsed) / float64(p.limit.Period.Microseconds()) * float64(p.limit.Count)
}

// refill brings the guess to a time.
func (p *place) refill(now int64) {
	p.room = max(p.room, min(p.room+p.back(now-p.since), float64(p.limit.Capacity())))
	p.since = max(now, p.since)
}

// admits reports whether so many units could pass besides those under way.
func (p *place) admits(units int64) bool {
	const roundOff = 1e-6
	return float64(units) <= p.room+roundOff
}

// learn sets the guess right by what came of a turn.
func (p *place) learn(t *turn, a *answer, now int64) {
	p.refill(now)
	switch a.outcome {
	case unheard: // and perhaps taken
		return
	case vague:
		p.room = math.Inf(1)
		return
	case unused, untaken:
		p.room += float64(t.units)
	}
	if a.outcome == unused {
		return
	}
	remaining := float64(a.remaining)
	if t.no > p.heard { // at least, if none of those under way is in it
		p.room = max(p.room, remaining-float64(p.units))
	}
	p.room = min(p.room, remaining+p.back(now-a.asked)) // at most, if all are
	p.heard = p.sent
}

// leave ends a turn with what it brought.
func (t *turn) leave(a answer, now int64) {
	if t.set == nil {
		return
	}
	set := t.set
	t.set = nil
	set.mu.Lock()
	defer set.mu.Unlock()
	p := &set.places[t.way]
	p.calls--
	p.units -= t.units
	if t.scout {
		p.scouting = false
	}
	if a.outcome > unheard {
		p.answers++
	}
	p.learn(t, &a, now)
	if a.denial != nil || a.outcome == unheard {
		w := p.first
		p.first, p.last = nil, nil
		for ; w != nil; w = w.next {
			if !w.gone {
				w.woken <- wake{denial: a.denial, shared: w.sent < t.no, failed: a.outcome == unheard}
			}
		}
	}
	set.call(t.way, a.outcome == taken)
}

// call gives a turn to the waiters whose units could pass. The next one is sent as a scout if no call is in flight, or if a
// response left too little for it: if calls went out only as fast as units refill, all would pass, and waiters would never
// learn that they are too many.
func (s *gateSet) call(way int, heard bool) {
	p := &s.places[way]
	for p.first != nil {
		w := p.first
		if !w.gone {
			if !p.admits(w.units) && p.calls > 0 && (!heard || p.scouting) {
				return
			}
			w.woken <- wake{turn: s.start(way, w.units)}
		}
		p.first = w.next
	}
	p.last = nil
}

// giveUp removes a waiter. If the waiter was woken meanwhile, giveUp returns the reason. It also reports whether other callers
// got a response while it waited.
func (g *gate) giveUp(hash uint64, w *waiter) (why wake, woken, heard bool) {
	set := g.set(hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	if way := set.find(hash); way >= 0 {
		heard = set.places[way].answers > w.answers
	}
	select {
	case why = <-w.woken:
		return why, true, heard
	default:
		w.gone = true
		return wake{}, false, heard
	}
}

// change notes that so many units were given back to a key, or taken without leave if that is negative.
func (g *gate) change(hash uint64, units, now int64) {
	set := g.used(hash)
	if set == nil {
		return
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	if way := set.find(hash); way >= 0 {
		p := &set.places[way]
		p.refill(now)
		p.room += float64(units)
		set.call(way, false)
	}
}

// forget notes that a key is as good as new.
func (g *gate) forget(hash uint64, now int64) {
	set := g.used(hash)
	if set == nil {
		return
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	if way := set.find(hash); way >= 0 {
		set.places[way].renew(now)
		set.call(way, false)
	}
}
