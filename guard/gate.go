package guard

import (
	"math"
	"sync"

	"github.com/headgate/headgate"
)

const (
	gateSets = 1024 // a power of two
	gateWays = 8
)

// A gate keeps callers of one key from rushing the store: no more units are under way at once than could pass. It knows
// keys by their hash alone: two that share one only wait for each other.
type gate struct {
	sets [gateSets]gateSet
}

type gateSet struct {
	mu     sync.Mutex
	places [gateWays]place
	_      [56]byte
}

// A place is that of one key.
type place struct {
	hash  uint64
	limit headgate.Limit

	calls int   // under way
	units int64 // that these ask for
	sent  uint64

	// What the store said remains, and when it was asked. Answers to calls up to the one numbered learned were under way
	// together with that one, and the least of them counts.
	room    int64
	since   int64 // µs
	learned uint64

	first, last *waiter
}

// A turn is leave to call the store. The zero turn is that of a call that is not held back.
type turn struct {
	set   *gateSet
	way   int
	no    uint64
	units int64
}

// A waiter waits for his turn, or for the answer to another's.
type waiter struct {
	units int64
	sent  uint64 // how many calls had been sent when he came
	woken chan wake
	gone  bool
	next  *waiter
}

// A wake is why a waiter is woken: it is his turn, or there is an answer.
type wake struct {
	turn   turn
	denial *denial // what the answer denies, or nil
	shared bool    // the store was asked after he came
	failed bool    // there is no answer
}

// An answer is what a call has told about the key.
type answer struct {
	known  bool
	failed bool
	room   int64
	asked  int64
	denial *denial
}

// unbounded is the room of a key about which nothing is known but that it is not to be held back.
const unbounded = math.MaxInt64 / 4

// enter asks for a turn. If it is not given yet, it returns the waiter that will get it, unless force is set.
func (g *gate) enter(hash uint64, c *headgate.Check, now int64, force bool) (turn, *waiter) {
	set := &g.sets[hash/denySets%gateSets]
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
		p.limit, p.room, p.since, p.learned = c.Limit, c.Limit.Capacity(), now, p.sent
	}
	units := min(c.Cost, c.Limit.Capacity())
	if force || p.first == nil && p.admits(units, now) {
		return set.start(way, units), nil
	}
	w := &waiter{units: units, sent: p.sent, woken: make(chan wake, 1)}
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

func (s *gateSet) start(way int, units int64) turn {
	p := &s.places[way]
	p.calls++
	p.units += units
	p.sent++
	return turn{set: s, way: way, no: p.sent, units: units}
}

// admits tells whether so many units could pass besides those under way.
func (p *place) admits(units, now int64) bool {
	if p.calls == 0 || p.units+units <= p.room {
		return true
	}
	elapsed := now - p.since
	if elapsed <= 0 || p.limit.Algorithm == headgate.Concurrency {
		return false
	}
	back := float64(elapsed) / float64(p.limit.Period.Microseconds()) * float64(p.limit.Count)
	return float64(p.units+units) <= float64(p.room)+math.Floor(back)
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
	if a.known {
		if t.no > p.learned {
			p.room, p.since, p.learned = a.room, a.asked, p.sent
		} else {
			p.room = min(p.room, a.room)
		}
	}
	if a.denial != nil || a.failed {
		w := p.first
		p.first, p.last = nil, nil
		for ; w != nil; w = w.next {
			if !w.gone {
				w.woken <- wake{denial: a.denial, shared: w.sent < t.no, failed: a.failed}
			}
		}
	}
	set.call(t.way, now)
}

// call gives their turn to those who wait and whose units could pass.
func (s *gateSet) call(way int, now int64) {
	p := &s.places[way]
	for p.first != nil {
		w := p.first
		if !w.gone {
			if !p.admits(w.units, now) {
				return
			}
			w.woken <- wake{turn: s.start(way, w.units)}
		}
		p.first = w.next
	}
	p.last = nil
}

// giveUp takes back a waiter's wish. If he was woken meanwhile, it returns why.
func (g *gate) giveUp(hash uint64, w *waiter) (wake, bool) {
	set := &g.sets[hash/denySets%gateSets]
	set.mu.Lock()
	defer set.mu.Unlock()
	select {
	case why := <-w.woken:
		return why, true
	default:
		w.gone = true
		return wake{}, false
	}
}

// change notes that so many units were given back to a key, or taken without leave if that is negative.
func (g *gate) change(hash uint64, units, now int64) {
	set := &g.sets[hash/denySets%gateSets]
	set.mu.Lock()
	defer set.mu.Unlock()
	if way := set.find(hash); way >= 0 {
		p := &set.places[way]
		p.room = min(p.room+units, unbounded)
		set.call(way, now)
	}
}

// forget notes that a key is as good as new.
func (g *gate) forget(hash uint64, now int64) {
	set := &g.sets[hash/denySets%gateSets]
	set.mu.Lock()
	defer set.mu.Unlock()
	if way := set.find(hash); way >= 0 {
		p := &set.places[way]
		p.room, p.since, p.learned = p.limit.Capacity(), now, p.sent
		set.call(way, now)
	}
}
