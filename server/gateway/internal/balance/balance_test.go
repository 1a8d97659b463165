package balance

import (
	"errors"
	"testing"
	"time"
)

// at is a clock that stands still.
type at time.Duration

func (a at) Now() time.Duration { return time.Duration(a) }

// shares returns how many of n requests each upstream gets.
func shares(g *Group, now time.Duration, n int) []int {
	counts := make([]int, len(g.members))
	for range n {
		if i := g.Pick(at(now), 0); i >= 0 {
			counts[i]++
		}
	}
	return counts
}

var errTest = errors.New("connection refused")

func TestFailingUpstreamIsEjectedAndReturnsSlowly(t *testing.T) {
	g := New(2, Options{EjectAfter: 3, EjectFor: 10 * time.Second, SlowReturn: 30 * time.Second})
	now := time.Minute
	g.Failed(0, errTest, now)
	g.Failed(0, errTest, now)
	g.Succeeded(0) // ends the row
	g.Failed(0, errTest, now)
	if g.Failed(0, errTest, now) {
		t.Fatal("left out after two failures in a row, want three")
	}
	if !g.Failed(0, errTest, now) {
		t.Fatal("not left out after three failures in a row")
	}
	if got := shares(g, now+9*time.Second, 100); got[0] != 0 {
		t.Errorf("left out: it gets %d of 100, want none", got[0])
	}
	// It returns with a tenth of its share, and has half of it after half the time.
	now += 10 * time.Second
	if got := shares(g, now, 10_000); got[0] < 300 || got[0] > 700 {
		t.Errorf("just back: it gets %d of 10000, want about 500", got[0])
	}
	if got := shares(g, now+15*time.Second, 10_000); got[0] < 2000 || got[0] > 3000 {
		t.Errorf("half way: it gets %d of 10000, want about 2500", got[0])
	}
	if got := shares(g, now+30*time.Second, 100); got[0] != 50 {
		t.Errorf("fully back: it gets %d of 100, want 50", got[0])
	}
}

func TestFailureOnReturnEjectsForLonger(t *testing.T) {
	g := New(2, Options{EjectAfter: 3, EjectFor: 10 * time.Second, SlowReturn: 30 * time.Second})
	now := time.Minute
	for range 3 {
		g.Failed(0, errTest, now)
	}
	for i, seconds := range []int{10, 20, 40, 80, 160, 160} {
		want := time.Duration(seconds) * time.Second
		for _, moment := range []time.Duration{now, now + want - 1} {
			if !g.Stats(0, moment).Ejected {
				t.Fatalf("time %d: back after %v, want %v", i, moment-now, want)
			}
		}
		now += want
		if s := g.Stats(0, now); !s.Returning || s.Ejected || s.Down {
			t.Fatalf("time %d: %+v after %v, want it to return", i, s, want)
		}
		if !g.Failed(0, errTest, now) {
			t.Fatalf("time %d: one failure on its return, and it is not left out", i)
		}
	}
}

func TestEjectionLeavesOneUpstream(t *testing.T) {
	g := New(3, Options{EjectAfter: 1, EjectFor: time.Minute, SlowReturn: -1, DownAfter: 1, UpAfter: 1})
	for i := range 3 {
		g.Failed(i, errTest, time.Second)
	}
	if g.Pick(at(2*time.Second), 0) < 0 {
		t.Error("all are ejected and none is picked, want one")
	}
	for i := range 3 {
		g.RecordCheck(i, errTest, time.Second)
	}
	if g.Pick(at(2*time.Second), 0) >= 0 {
		t.Error("all are down and one is picked")
	}
}

func TestHealthChangesAfterConsecutiveChecks(t *testing.T) {
	g := New(1, Options{EjectAfter: 5, SlowReturn: 10 * time.Second, DownAfter: 3, UpAfter: 2})
	check := func(results string) {
		for _, c := range results {
			var err error
			if c == 'x' {
				err = errTest
			}
			g.RecordCheck(0, err, time.Minute)
		}
	}
	for _, tt := range []struct {
		results string
		down    bool
	}{
		{"xx", false}, {"oxx", false}, {"x", true}, {"xxxx", true}, {"o", true}, {"xo", true}, {"o", false}, {"xxx", true}, {"oo", false},
	} {
		check(tt.results)
		if got := g.Stats(0, time.Minute).Down; got != tt.down {
			t.Fatalf("after %s: down %v, want %v", tt.results, got, tt.down)
		}
	}
	if !g.Stats(0, time.Minute).Returning || g.Stats(0, time.Minute+10*time.Second).Returning {
		t.Error("one that is back gets its full share at once, want it to return slowly")
	}
}

func TestTriedUpstreamsAreNotPicked(t *testing.T) {
	g := New(3, Options{EjectAfter: 5})
	var tried Tried
	seen := make(map[int]bool)
	for range 3 {
		i := g.Pick(at(time.Second), tried)
		if i < 0 || seen[i] {
			t.Fatalf("picked %d, want another", i)
		}
		seen[i] = true
		tried.Add(i)
	}
	if g.Pick(at(time.Second), tried) >= 0 {
		t.Error("all were tried and one is picked")
	}
}
