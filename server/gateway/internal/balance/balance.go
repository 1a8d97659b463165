// Package balance chooses an upstream of a route for each request. The upstreams take turns. An upstream gets no
// requests while its health checks fail, and for some time after consecutive requests to it have failed. When it gets
// requests again, its share grows slowly.
package balance

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a Group.
type Options struct {
	// EjectAfter is the number of consecutive failed requests after which an upstream is ejected. Negative for never.
	EjectAfter int
	// EjectFor is the duration of the first ejection. Each further ejection lasts twice as long, up to 16 times EjectFor.
	EjectFor time.Duration
	// SlowReturn is the time in which the share of a returning upstream grows from a tenth of its turns to all of them.
	// Negative for the full share immediately.
	SlowReturn time.Duration
	// DownAfter is the number of consecutive failed health checks after which an upstream is down. UpAfter is the number
	// of consecutive successful checks after which it is up again.
	DownAfter, UpAfter int
}

// A Clock returns the time since some fixed moment. A Group reads it only when it needs the time, which is rare.
type Clock interface{ Now() time.Duration }

// A Group has the upstreams of one route, known by their index. It is safe for concurrent use.
type Group struct {
	options Options
	members []member
	turns   atomic.Uint32 // the number of turns so far
}

// New returns a Group of n upstreams. All of them get requests.
func New(n int, o Options) *Group { return &Group{options: o, members: make([]member, n)} }

// A member is the state of an upstream.
type member struct {
	state atomic.Uint32 // a combination of isDown, isEjected and isReturning; 0 if the upstream gets its full share

	failed, ejections, checks, checksFailed atomic.Int64

	mu           sync.Mutex    // guards the following
	failures     int           // consecutive failed requests
	ejected      int           // consecutive ejections
	ejectedUntil time.Duration // when the ejection ends
	returnedAt   time.Duration // when the upstream began to get requests again
	differing    int           // consecutive checks whose result differs from isDown
	lastErr      error
}

// States of a member. Several can be set at once.
const (
	isDown      uint32 = 1 << iota // health checks of the upstream fail
	isEjected                      // the upstream gets no requests because requests to it have failed
	isReturning                    // the upstream does not get its full share yet
)

// Tried is a set of indices of upstreams. It has 64 bits. In a larger Group, several upstreams share a bit. When one of
// them was tried, the others are not tried either.
type Tried uint64

// Add adds an upstream.
func (t *Tried) Add(i int) { *t |= 1 << (i & 63) }

func (t Tried) has(i int) bool { return t&(1<<(i&63)) != 0 }

// Pick returns the upstream whose turn it is. It skips upstreams that are down, ejected or tried. If only ejected
// upstreams are left, it returns one of them. It returns -1 if all are down or tried.
func (g *Group) Pick(c Clock, tried Tried) int {
	n := len(g.members)
	if n == 1 {
		if tried == 0 && g.members[0].state.Load()&isDown == 0 {
			return 0
		}
		return -1
	}
	first := int(g.turns.Add(1)) % n
	returning, ejected := -1, -1
	for i := range n {
		index := first + i
		if index >= n {
			index -= n
		}
		if tried.has(index) {
			continue
		}
		m := &g.members[index]
		if m.state.Load() == 0 {
			return index
		}
		now := c.Now()
		switch state := g.current(m, now); {
		case state == 0:
			return index
		case state&isDown != 0:
		case state&isEjected != 0:
			if ejected < 0 {
				ejected = index
			}
		case g.takesTurn(m, now):
			return index
		case returning < 0:
			returning = index
		}
	}
	if returning >= 0 {
		return returning
	}
	return ejected
}

// current returns the state of a member. Before that, it ends an ejection or a slow return whose time has passed.
func (g *Group) current(m *member, now time.Duration) uint32 {
	state := m.state.Load()
	if state == 0 || state&isDown != 0 {
		return state
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if state = m.state.Load(); state&isEjected != 0 && now >= m.ejectedUntil {
		g.beginReturn(m, now)
		state = m.state.Load()
	}
	if state&isReturning != 0 && now-m.returnedAt >= g.options.SlowReturn {
		m.state.And(^isReturning)
		m.ejected = 0
		state = m.state.Load()
	}
	return state
}

// beginReturn ends the ejection of an upstream, and begins its slow return. m.mu is held.
func (g *Group) beginReturn(m *member, now time.Duration) {
	m.failures = 0
	m.returnedAt = now
	m.state.And(^isEjected)
	if g.options.SlowReturn > 0 {
		m.state.Or(isReturning)
	}
}

// takesTurn decides randomly whether a returning upstream takes its turn. The probability grows from a tenth to 1
// during SlowReturn.
func (g *Group) takesTurn(m *member, now time.Duration) bool {
	m.mu.Lock()
	since := now - m.returnedAt
	m.mu.Unlock()
	share := max(float64(since)/float64(g.options.SlowReturn), 0.1)
	return rand.Float64() < share
}

// Succeeded records that an upstream has served a request.
func (g *Group) Succeeded(i int) {
	m := &g.members[i]
	if m.failed.Load() == 0 {
		return // no request has ever failed, so failures is 0, and the lock is not needed
	}
	m.mu.Lock()
	m.failures = 0
	m.mu.Unlock()
}

// Failed records that a request to an upstream has failed. err may be nil. It reports whether this failure has ejected
// the upstream.
func (g *Group) Failed(i int, err error, now time.Duration) (ejected bool) {
	m := &g.members[i]
	m.failed.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.lastErr = err
	}
	m.failures++
	if g.options.EjectAfter < 0 || m.state.Load()&isEjected != 0 {
		return false
	}
	// An upstream that is still returning is ejected after one failure.
	if m.failures < g.options.EjectAfter && m.state.Load()&isReturning == 0 {
		return false
	}
	m.ejectedUntil = now + g.options.EjectFor<<min(m.ejected, 4)
	m.ejected++
	m.ejections.Add(1)
	m.state.And(^isReturning)
	m.state.Or(isEjected)
	return true
}

// RecordCheck records the result of a health check. It reports whether the check has changed whether the upstream is
// down.
func (g *Group) RecordCheck(i int, err error, now time.Duration) (changed bool) {
	m := &g.members[i]
	m.checks.Add(1)
	if err != nil {
		m.checksFailed.Add(1)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.lastErr = err
	}
	down := m.state.Load()&isDown != 0
	if down == (err != nil) {
		m.differing = 0
		return false
	}
	m.differing++
	switch {
	case !down && m.differing >= g.options.DownAfter:
		m.state.Or(isDown)
	case down && m.differing >= g.options.UpAfter:
		m.ejected = 0
		g.beginReturn(m, now)
		m.state.And(^isDown)
	default:
		return false
	}
	m.differing = 0
	return true
}

// Stats describe one upstream.
type Stats struct {
	// Down reports whether health checks of the upstream fail.
	Down bool
	// Ejected reports whether the upstream gets no requests because requests to it have failed.
	Ejected bool
	// Returning reports whether the upstream gets requests again, but not its full share yet.
	Returning bool
	// Totals since New: failed requests, ejections, health checks, and failed health checks.
	Failed, Ejections, Checks, ChecksFailed int64
	// LastErr is the last error of a request or a check, or nil if there was none.
	LastErr error
}

// Stats returns the Stats of an upstream.
func (g *Group) Stats(i int, now time.Duration) Stats {
	m := &g.members[i]
	state := g.current(m, now)
	s := Stats{
		Down: state&isDown != 0, Ejected: state&isEjected != 0, Returning: state&isReturning != 0,
		Failed: m.failed.Load(), Ejections: m.ejections.Load(), Checks: m.checks.Load(), ChecksFailed: m.checksFailed.Load(),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.LastErr = m.lastErr
	return s
}
