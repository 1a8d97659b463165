package gateway

import (
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/gateway/upstream"
)

// A route is a Route with its upstreams.
type route struct {
	config  *Route
	servers []*upstreamServer
	next    atomic.Uint32 // whose turn it is
	stall   time.Duration // how long an upstream may be silent in its answer
	uploads uploads       // to upstreams of HTTP/1.1
}

// An upstreamServer is one upstream of one route, and what is known of it.
type upstreamServer struct {
	url    string
	target target
	tls    *tls.Config // nil without TLS
	leg    leg
	// tunnel is the leg for upgrades; nil if the upstream cannot do them.
	tunnel *transport

	state atomic.Uint32 // 0 if nothing is known against it; see below

	mu       sync.Mutex    // guards what follows
	failures int           // requests in a row
	ejected  int           // times in a row, for how long the next one is
	until    time.Duration // when it may return
	returned time.Duration // when it began to
	checks   int           // checks in a row, of the kind that the state is not
	lastErr  error
	told     pace // of requests that failed

	inFlight, upgraded, requests, failed, ejections atomic.Int64 // upgraded are in flight, too
	checked, checksFailed                           atomic.Int64
	faults                                          [faultKinds]atomic.Int64
}

// faultKinds is more than there are faults.
const faultKinds = 16

// What may be known against an upstream.
const (
	isDown      uint32 = 1 << iota // by its health checks
	isEjected                      // because requests have failed there
	isReturning                    // it is back, and does not yet get its full share
)

// A clock tells how long it has been running. It is asked only when that matters.
type clock interface{ now() time.Duration }

// pick returns the upstream whose turn it is, other than those that were tried already, or nil if there is none.
func (rt *route) pick(c clock, tried uint64) *upstreamServer {
	n := len(rt.servers)
	if n == 1 {
		if s := rt.servers[0]; tried == 0 && s.state.Load()&isDown == 0 {
			return s
		}
		return nil
	}
	first := int(rt.next.Add(1)) % n
	var returning, ejected *upstreamServer
	for i := range n {
		at := first + i
		if at >= n {
			at -= n
		}
		s := rt.servers[at]
		if tried&bit(at) != 0 {
			continue
		}
		if s.state.Load() == 0 {
			return s
		}
		now := c.now()
		switch state := s.current(rt, now); {
		case state == 0:
			return s
		case state&isDown != 0:
		case state&isEjected != 0:
			ejected = firstOf(ejected, s)
		case s.takesTurn(rt, now):
			return s
		default:
			returning = firstOf(returning, s)
		}
	}
	// Rather one that may fail than nobody.
	return firstOf(returning, ejected)
}

func firstOf(a, b *upstreamServer) *upstreamServer {
	if a != nil {
		return a
	}
	return b
}

// bit is that of an upstream in the set of those that were tried. Beyond 64 they share bits, which only means that fewer are
// tried again.
func bit(at int) uint64 { return 1 << (at & 63) }

// bitOf is bit for an upstream.
func (rt *route) bitOf(s *upstreamServer) uint64 {
	for i := range rt.servers {
		if rt.servers[i] == s {
			return bit(i)
		}
	}
	return 0
}

// current returns the state, after what time has changed about it.
func (s *upstreamServer) current(rt *route, now time.Duration) uint32 {
	state := s.state.Load()
	if state == 0 || state&isDown != 0 {
		return state
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if state = s.state.Load(); state&isEjected != 0 && now >= s.until {
		s.comeBack(rt, now)
		state = s.state.Load()
	}
	if state&isReturning != 0 && now-s.returned >= rt.config.Ejection.SlowReturn {
		s.state.And(^isReturning)
		s.ejected = 0
		state = s.state.Load()
	}
	return state
}

// comeBack lets an upstream have a share again. s.mu is held.
func (s *upstreamServer) comeBack(rt *route, now time.Duration) {
	s.failures = 0
	s.returned = now
	s.state.And(^isEjected)
	if rt.config.Ejection.SlowReturn > 0 {
		s.state.Or(isReturning)
	}
}

// takesTurn tells by chance whether an upstream that is returning takes its turn: a tenth of them at first, all of them when
// SlowReturn is over.
func (s *upstreamServer) takesTurn(rt *route, now time.Duration) bool {
	s.mu.Lock()
	since := now - s.returned
	s.mu.Unlock()
	share := max(float64(since)/float64(rt.config.Ejection.SlowReturn), 0.1)
	return rand.Float64() < share
}

// succeeded notes that an upstream has answered. It reports whether that was an answer too many of those that count as failures.
func (s *upstreamServer) succeeded(rt *route, status int, c clock) (ejected bool) {
	if status >= http.StatusInternalServerError && rt.config.Ejection.Count5xx {
		return s.failedWith(rt, nil, c.now())
	}
	if s.failed.Load() == 0 {
		return false // as long as all is well, nobody waits for a lock
	}
	s.mu.Lock()
	s.failures = 0
	s.mu.Unlock()
	return false
}

// tells reports whether the log should have a line about a request that failed, one a second, and how many it was not told of
// since the last.
func (s *upstreamServer) tells(now time.Time) (ok bool, missed int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told.next(now)
}

// failedWith notes that an upstream has not. It reports whether that was one time too many.
func (s *upstreamServer) failedWith(rt *route, err error, now time.Duration) (ejected bool) {
	s.failed.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.lastErr = err
	}
	s.failures++
	e := &rt.config.Ejection
	if e.After < 0 || s.state.Load()&isEjected != 0 {
		return false
	}
	// One that has just come back has to prove itself.
	if s.failures < e.After && s.state.Load()&isReturning == 0 {
		return false
	}
	s.until = now + e.For<<min(s.ejected, 4)
	s.ejected++
	s.ejections.Add(1)
	s.state.And(^isReturning)
	s.state.Or(isEjected)
	return true
}

// blames reports whether an error is the upstream's fault, so that it counts against it.
func blames(err error) bool {
	var e *upstream.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Fault {
	case upstream.FaultDial, upstream.FaultBroken, upstream.FaultResponse, upstream.FaultTimeout, upstream.FaultUpgrade:
		return true
	default:
		return false
	}
}

// checkedWith notes the outcome of a health check. It reports whether the state has changed.
func (s *upstreamServer) checkedWith(rt *route, err error, now time.Duration) (changed bool) {
	s.checked.Add(1)
	if err != nil {
		s.checksFailed.Add(1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.lastErr = err
	}
	down := s.state.Load()&isDown != 0
	if down == (err != nil) {
		s.checks = 0
		return false
	}
	s.checks++
	switch {
	case !down && s.checks >= rt.config.Health.Failures:
		s.state.Or(isDown)
	case down && s.checks >= rt.config.Health.Successes:
		s.ejected = 0
		s.comeBack(rt, now)
		s.state.And(^isDown)
	default:
		return false
	}
	s.checks = 0
	return true
}

// retryAfter is when to come back if nobody can be asked.
func (rt *route) retryAfter() time.Duration {
	if rt.config.Health == nil {
		return time.Second
	}
	return rt.config.Health.Interval
}
