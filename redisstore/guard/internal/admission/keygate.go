package admission

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
)

const (
	gateSets    = 1024 // a power of two
	keysPerGate = 8    // keys in one set
)

// A KeyGate prevents callers of one key from overloading the store. The calls in flight ask for no more units than
// could pass, plus one extra call, which finds out whether more units could pass. A KeyGate identifies keys by their
// hash, so callers of two keys with the same hash wait for each other. The zero value is ready to use.
type KeyGate struct {
	sets [gateSets]atomic.Pointer[gateSet] // nil until first used
}

// setPointer returns the pointer to the set of a hash. It uses other bits of the hash than DenyCache does.
func (g *KeyGate) setPointer(hash uint64) *atomic.Pointer[gateSet] {
	return &g.sets[hash/denySets%gateSets]
}

// existing returns the set of a hash, or nil if it was never used.
func (g *KeyGate) existing(hash uint64) *gateSet { return g.setPointer(hash).Load() }

// set returns the set of a hash.
func (g *KeyGate) set(hash uint64) *gateSet {
	pointer := g.setPointer(hash)
	if pointer.Load() == nil {
		pointer.CompareAndSwap(nil, new(gateSet))
	}
	return pointer.Load()
}

// A gateSet has the states of the keys whose hashes select it.
type gateSet struct {
	mu   sync.Mutex
	keys [keysPerGate]keyState
}

// A keyState is the state of one key.
type keyState struct {
	hash  uint64
	limit headgate.Limit // zero if the entry is free

	calls int    // number of calls in flight
	units int64  // units that the calls in flight ask for
	sent  uint64 // number of calls sent so far

	// available is how many units could pass at the time at, in µs, in addition to those of the calls in flight. It is an
	// estimate that grows at the limit's rate, and is corrected by responses.
	available float64
	at        int64
	// sentAtResponse is the value of sent when the latest response arrived. Responses to earlier calls may be outdated.
	sentAtResponse uint64
	extraInFlight  bool   // an extra call is in flight
	responses      uint64 // received so far

	first, last *Waiter
}

// A Turn is the permission to call the store for a key. A call with the zero Turn is not counted.
type Turn struct {
	set    *gateSet
	index  int    // of the key in the set
	number uint64 // the value of keyState.sent when the turn began
	units  int64
	extra  bool // the call asks for more units than could pass
}

// Held reports whether the turn must be ended with Leave.
func (t *Turn) Held() bool { return t.set != nil }

// Extra reports whether the call asks for more units than could pass.
func (t *Turn) Extra() bool { return t.extra }

// A Waiter is a caller that waits for its turn, or for the response to another caller.
type Waiter struct {
	units     int64
	sent      uint64 // number of calls sent before the waiter arrived
	responses uint64 // number of responses received before the waiter arrived
	woken     chan Wake
	gone      bool // the caller has given up
	next      *Waiter
}

// Woken returns a channel that receives one Wake when the waiter is woken.
func (w *Waiter) Woken() <-chan Wake { return w.woken }

// A Wake says why a waiter is woken: it gets a turn, or another caller has got a response.
type Wake struct {
	Turn   Turn    // the waiter's turn, or the zero Turn
	Denial *Denial // the denial in the response, or nil
	// Applies reports whether the denial also applies to the waiter. It does if the store was called after the waiter
	// arrived.
	Applies bool
	Failed  bool // the other caller got no response
}

// A ResultKind says how a turn ended.
type ResultKind uint8

// Kinds of results.
const (
	NotSent    ResultKind = iota // the store was not called
	NoResponse                   // the store did not respond
	Unclear                      // the response says nothing about the key
	Taken                        // the store took the units
	NotTaken                     // the store took nothing
)

// A Result is the result of a turn.
type Result struct {
	Kind      ResultKind
	Remaining int64 // of the decision, for Taken and NotTaken
	CalledAt  int64 // when the store was called, in µs
	Denial    *Denial
}

// Enter asks for a turn. If the caller must wait, Enter returns a Waiter. With force it never has to wait. If there is
// no room for the key, Enter returns the zero Turn.
func (g *KeyGate) Enter(hash uint64, c *headgate.Check, now int64, force bool) (Turn, *Waiter) {
	set := g.set(hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	i := set.find(hash)
	if i < 0 {
		if i = set.idle(); i < 0 {
			return Turn{}, nil
		}
		set.keys[i] = keyState{hash: hash}
	}
	k := &set.keys[i]
	if k.limit != c.Limit {
		k.limit = c.Limit
		k.reset(now)
	}
	k.refill(now)
	for k.first != nil && k.first.gone {
		k.first = k.first.next
	}
	units := min(c.Cost, c.Limit.Capacity())
	if force || k.first == nil && (k.admits(units) || k.calls == 0) {
		return set.start(i, units), nil
	}
	w := &Waiter{units: units, sent: k.sent, responses: k.responses, woken: make(chan Wake, 1)}
	if k.first == nil {
		k.first = w
	} else {
		k.last.next = w
	}
	k.last = w
	return Turn{}, w
}

// find returns the index of a hash, or -1.
func (s *gateSet) find(hash uint64) int {
	for i := range s.keys {
		if s.keys[i].hash == hash && s.keys[i].limit.Count != 0 {
			return i
		}
	}
	return -1
}

// idle returns the index of the least recently used key without calls and waiters, or -1.
func (s *gateSet) idle() int {
	best := -1
	for i := range s.keys {
		k := &s.keys[i]
		if k.calls == 0 && k.first == nil && (best < 0 || k.at < s.keys[best].at) {
			best = i
		}
	}
	return best
}

// start returns a turn for the key at index i. The call is an extra call if it asks for more units than could pass.
func (s *gateSet) start(i int, units int64) Turn {
	k := &s.keys[i]
	extra := !k.admits(units)
	k.extraInFlight = k.extraInFlight || extra
	k.calls++
	k.units += units
	k.available -= float64(units)
	k.sent++
	return Turn{set: s, index: i, number: k.sent, units: units, extra: extra}
}

// reset sets the estimate to the full capacity.
func (k *keyState) reset(now int64) {
	k.available, k.at, k.sentAtResponse = float64(k.limit.Capacity())-float64(k.units), now, k.sent
}

// refilled returns how many units are restored in a time, in µs.
func (k *keyState) refilled(elapsed int64) float64 {
	if elapsed <= 0 || k.limit.Algorithm == headgate.Concurrency {
		return 0
	}
	return float64(elapsed) / float64(k.limit.Period.Microseconds()) * float64(k.limit.Count)
}

// refill advances the estimate to the time now.
func (k *keyState) refill(now int64) {
	k.available = max(k.available, min(k.available+k.refilled(now-k.at), float64(k.limit.Capacity())))
	k.at = max(now, k.at)
}

// admits reports whether units could pass in addition to those in flight.
func (k *keyState) admits(units int64) bool {
	const roundOff = 1e-6
	return float64(units) <= k.available+roundOff
}

// learn corrects the estimate by the result of a turn.
func (k *keyState) learn(t *Turn, r *Result, now int64) {
	k.refill(now)
	switch r.Kind {
	case NoResponse: // the units may have been taken
		return
	case Unclear:
		k.available = math.Inf(1)
		return
	case NotSent, NotTaken:
		k.available += float64(t.units)
	}
	if r.Kind == NotSent {
		return
	}
	remaining := float64(r.Remaining)
	// At least this many units are available, even if the store decides all calls in flight later.
	if t.number > k.sentAtResponse {
		k.available = max(k.available, remaining-float64(k.units))
	}
	// At most this many are available, even if the store has already decided all calls in flight.
	k.available = min(k.available, remaining+k.refilled(now-r.CalledAt))
	k.sentAtResponse = k.sent
}

// Leave ends a turn with its result.
func (t *Turn) Leave(r Result, now int64) {
	if t.set == nil {
		return
	}
	set := t.set
	t.set = nil
	set.mu.Lock()
	defer set.mu.Unlock()
	k := &set.keys[t.index]
	k.calls--
	k.units -= t.units
	if t.extra {
		k.extraInFlight = false
	}
	if r.Kind > NoResponse {
		k.responses++
	}
	k.learn(t, &r, now)
	if r.Denial != nil || r.Kind == NoResponse {
		w := k.first
		k.first, k.last = nil, nil
		for ; w != nil; w = w.next {
			if !w.gone {
				w.woken <- Wake{Denial: r.Denial, Applies: w.sent < t.number, Failed: r.Kind == NoResponse}
			}
		}
	}
	set.wake(t.index, r.Kind == Taken)
}

// wake gives a turn to the waiters whose units could pass. The next waiter gets a turn for an extra call if no call is
// in flight, or if a response left too few units for it. Without extra calls, calls would be sent only as fast as units
// are restored. All of them would pass, and the other waiters would wait for their turn instead of being denied.
func (s *gateSet) wake(i int, taken bool) {
	k := &s.keys[i]
	for k.first != nil {
		w := k.first
		if !w.gone {
			if !k.admits(w.units) && k.calls > 0 && (!taken || k.extraInFlight) {
				return
			}
			w.woken <- Wake{Turn: s.start(i, w.units)}
		}
		k.first = w.next
	}
	k.last = nil
}

// GiveUp removes a waiter. If the waiter has just been woken, GiveUp returns the reason. responded reports whether
// other callers got a response while it waited.
func (g *KeyGate) GiveUp(hash uint64, w *Waiter) (reason Wake, woken, responded bool) {
	set := g.set(hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	if i := set.find(hash); i >= 0 {
		responded = set.keys[i].responses > w.responses
	}
	select {
	case reason = <-w.woken:
		return reason, true, responded
	default:
		w.gone = true
		return Wake{}, false, responded
	}
}

// Add adds units that were given back to a key, or removes units that were taken without a turn if they are negative.
func (g *KeyGate) Add(hash uint64, units, now int64) {
	g.update(hash, func(k *keyState) {
		k.refill(now)
		k.available += float64(units)
	})
}

// Reset sets the estimate for a key to its full capacity.
func (g *KeyGate) Reset(hash uint64, now int64) {
	g.update(hash, func(k *keyState) { k.reset(now) })
}

// update changes the state of a key, if it has one, and wakes its waiters.
func (g *KeyGate) update(hash uint64, change func(*keyState)) {
	set := g.existing(hash)
	if set == nil {
		return
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	if i := set.find(hash); i >= 0 {
		change(&set.keys[i])
		set.wake(i, false)
	}
}

// Idle reports whether no key has calls in flight or waiters.
func (g *KeyGate) Idle() bool {
	for i := range g.sets {
		if set := g.sets[i].Load(); set != nil && !set.isIdle() {
			return false
		}
	}
	return true
}

func (s *gateSet) isIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.keys {
		if k := &s.keys[i]; k.calls != 0 || k.units != 0 || k.first != nil && !k.first.gone {
			return false
		}
	}
	return true
}
