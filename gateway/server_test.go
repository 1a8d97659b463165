package gateway

import (
	"errors"
	"testing"
	"time"
)

// at is a clock that stands still.
type at time.Duration

func (a at) now() time.Duration { return time.Duration(a) }

// newTestRoute returns a route with upstreams that nobody asks.
func newTestRoute(n int, e Ejection) *route {
	rt := &route{config: &Route{Ejection: e}}
	setDefault(&rt.config.Ejection.After, DefaultEjectAfter)
	setDefault(&rt.config.Ejection.For, DefaultEjectFor)
	for range n {
		rt.servers = append(rt.servers, &upstreamServer{})
	}
	return rt
}

// shares returns how many of n requests each upstream gets.
func shares(rt *route, now time.Duration, n int) []int {
	counts := make([]int, len(rt.servers))
	for range n {
		s := rt.pick(at(now), 0)
		for i := range rt.servers {
			if rt.servers[i] == s {
				counts[i]++
			}
		}
	}
	return counts
}

var errTest = errors.New("connection refused")

func TestUpstreamThatFailsInARowIsLeftOutAndReturnsSlowly(t *testing.T) {
	rt := newTestRoute(2, Ejection{After: 3, For: 10 * time.Second, SlowReturn: 30 * time.Second})
	bad := rt.servers[0]
	now := time.Minute
	bad.failedWith(rt, errTest, now)
	bad.failedWith(rt, errTest, now)
	bad.succeeded(rt, 200, at(now)) // ends the row
	bad.failedWith(rt, errTest, now)
	if bad.failedWith(rt, errTest, now) {
		t.Fatal("left out after two failures in a row, want three")
	}
	if !bad.failedWith(rt, errTest, now) {
		t.Fatal("not left out after three failures in a row")
	}
	if got := shares(rt, now+9*time.Second, 100); got[0] != 0 {
		t.Errorf("left out: it gets %d of 100, want none", got[0])
	}
	// It is back with a tenth of its share, and half of it after half the time.
	now += 10 * time.Second
	if got := shares(rt, now, 10_000); got[0] < 300 || got[0] > 700 {
		t.Errorf("just back: it gets %d of 10000, want about 500", got[0])
	}
	if got := shares(rt, now+15*time.Second, 10_000); got[0] < 2000 || got[0] > 3000 {
		t.Errorf("half way: it gets %d of 10000, want about 2500", got[0])
	}
	if got := shares(rt, now+30*time.Second, 100); got[0] != 50 {
		t.Errorf("fully back: it gets %d of 100, want 50", got[0])
	}
}

func TestUpstreamThatFailsOnItsReturnIsLeftOutForLonger(t *testing.T) {
	rt := newTestRoute(2, Ejection{After: 3, For: 10 * time.Second, SlowReturn: 30 * time.Second})
	bad, now := rt.servers[0], time.Minute
	for range 3 {
		bad.failedWith(rt, errTest, now)
	}
	for i, seconds := range []int{10, 20, 40, 80, 160, 160} {
		want := time.Duration(seconds) * time.Second
		for _, moment := range []time.Duration{now, now + want - 1} {
			if bad.current(rt, moment)&isEjected == 0 {
				t.Fatalf("time %d: back after %v, want %v", i, moment-now, want)
			}
		}
		now += want
		if state := bad.current(rt, now); state != isReturning {
			t.Fatalf("time %d: state %b after %v, want it to return", i, state, want)
		}
		if !bad.failedWith(rt, errTest, now) {
			t.Fatalf("time %d: one failure on its return, and it is not left out", i)
		}
	}
}

func TestEjectionLeavesSomebodyToAsk(t *testing.T) {
	rt := newTestRoute(3, Ejection{After: 1, For: time.Minute, SlowReturn: -1})
	for _, s := range rt.servers {
		s.failedWith(rt, errTest, time.Second)
	}
	if rt.pick(at(2*time.Second), 0) == nil {
		t.Error("all are left out and nobody is asked, want somebody all the same")
	}
	rt.config.Health = &Health{Failures: 1, Successes: 1}
	for _, s := range rt.servers {
		s.checkedWith(rt, errTest, time.Second)
	}
	if rt.pick(at(2*time.Second), 0) != nil {
		t.Error("all are down and somebody is asked")
	}
}

func TestAnswersOf5xxCountOnlyIfConfigured(t *testing.T) {
	for _, counts := range []bool{false, true} {
		rt := newTestRoute(2, Ejection{After: 2, For: time.Minute, Count5xx: counts, SlowReturn: -1})
		s := rt.servers[0]
		told := 0
		for range 5 {
			if s.succeeded(rt, 503, at(time.Second)) {
				told++
			}
		}
		if got := s.current(rt, time.Second)&isEjected != 0; got != counts || counts != (told == 1) {
			t.Errorf("Count5xx %v: left out %v, told %d times", counts, got, told)
		}
	}
}

func TestHealthNeedsSeveralChecksInARow(t *testing.T) {
	rt := newTestRoute(1, Ejection{SlowReturn: 10 * time.Second})
	rt.config.Health = &Health{Failures: 3, Successes: 2}
	s := rt.servers[0]
	check := func(results string) {
		for _, c := range results {
			var err error
			if c == 'x' {
				err = errTest
			}
			s.checkedWith(rt, err, time.Minute)
		}
	}
	for _, tt := range []struct {
		results string
		down    bool
	}{
		{"xx", false}, {"oxx", false}, {"x", true}, {"xxxx", true}, {"o", true}, {"xo", true}, {"o", false}, {"xxx", true}, {"oo", false},
	} {
		check(tt.results)
		if got := s.state.Load()&isDown != 0; got != tt.down {
			t.Fatalf("after %s: down %v, want %v", tt.results, got, tt.down)
		}
	}
	if s.current(rt, time.Minute) != isReturning || s.current(rt, time.Minute+10*time.Second) != 0 {
		t.Error("one that is back gets its full share at once, want it to return slowly")
	}
}

func TestTriedUpstreamsAreNotPicked(t *testing.T) {
	rt := newTestRoute(3, Ejection{})
	var tried uint64
	seen := make(map[*upstreamServer]bool)
	for range 3 {
		s := rt.pick(at(time.Second), tried)
		if s == nil || seen[s] {
			t.Fatalf("picked %v, want another", s)
		}
		seen[s] = true
		tried |= rt.bitOf(s)
	}
	if rt.pick(at(time.Second), tried) != nil {
		t.Error("all were tried and one is picked")
	}
}
