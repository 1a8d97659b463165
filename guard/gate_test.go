package guard

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// What could pass is guessed from what the store said, and when.
func TestGuessOfWhatCouldPass(t *testing.T) {
	const second = 1_000_000 // µs
	for _, tt := range []struct {
		name  string
		limit string
		do    func(enter func(cost int64) *turn, g *gate) // at 0 s
		now   int64
		want  int // calls of one unit that may be under way besides those that are
	}{
		{
			name: "a key that is not known", limit: "5/h",
			do: func(func(int64) *turn, *gate) {}, want: 5,
		},
		{
			name: "besides those under way", limit: "5/h",
			do: func(enter func(int64) *turn, _ *gate) { enter(1); enter(3) }, want: 1,
		},
		{
			name: "others have taken", limit: "10/h",
			do: func(enter func(int64) *turn, _ *gate) {
				enter(1).leave(answer{outcome: taken, remaining: 2}, 0)
			}, want: 2,
		},
		{
			name: "a call that was not made", limit: "3/h",
			do: func(enter func(int64) *turn, _ *gate) {
				enter(1)
				enter(1)
				enter(1).leave(answer{}, 0)
			}, want: 1,
		},
		{
			name: "a call that was not answered may have taken", limit: "3/h",
			do: func(enter func(int64) *turn, _ *gate) {
				enter(1)
				enter(1).leave(answer{outcome: unheard}, 0)
			}, want: 1,
		},
		{
			name: "a denial takes nothing", limit: "10/h",
			do: func(enter func(int64) *turn, _ *gate) {
				enter(5)
				enter(5).leave(answer{outcome: untaken, remaining: 4}, 0)
			}, want: 4,
		},
		{
			name: "somebody else has given back", limit: "10/h",
			do: func(enter func(int64) *turn, _ *gate) {
				enter(10).leave(answer{outcome: taken}, 0)
				enter(1).leave(answer{outcome: taken, remaining: 7}, 0)
			}, want: 7,
		},
		{
			name: "an answer that was overtaken", limit: "3/h",
			do: func(enter func(int64) *turn, _ *gate) {
				first, second, third := enter(1), enter(1), enter(1)
				third.leave(answer{outcome: taken, remaining: 0}, 0)
				second.leave(answer{outcome: taken, remaining: 1}, 0)
				first.leave(answer{outcome: taken, remaining: 2}, 0)
			}, want: 1, // as always
		},
		{
			name: "time gives back", limit: "10/s burst 20",
			do: func(enter func(int64) *turn, _ *gate) {
				enter(20).leave(answer{outcome: taken}, 0)
			}, now: second / 2, want: 5,
		},
		{
			name: "but not more than there can be", limit: "10/s burst 20",
			do: func(enter func(int64) *turn, _ *gate) {
				enter(20).leave(answer{outcome: taken}, 0)
			}, now: 60 * second, want: 20,
		},
		{
			name: "nor places", limit: "5 concurrent",
			do: func(enter func(int64) *turn, _ *gate) {
				enter(5).leave(answer{outcome: taken}, 0)
			}, now: 60 * second, want: 1,
		},
		{
			name: "a place is given back", limit: "5 concurrent",
			do: func(enter func(int64) *turn, g *gate) {
				enter(5).leave(answer{outcome: taken}, 0)
				g.change(0, 3, 0)
			}, want: 3,
		},
		{
			name: "a reset", limit: "5/h",
			do: func(enter func(int64) *turn, g *gate) {
				enter(4).leave(answer{outcome: taken, remaining: 1}, 0)
				enter(1)
				g.forget(0, 0)
			}, want: 4,
		},
		{
			name: "an answer that says nothing", limit: "5/h",
			do: func(enter func(int64) *turn, _ *gate) {
				enter(5).leave(answer{outcome: vague}, 0)
			}, want: 100,
		},
	} {
		var g gate
		c := check("a/1", tt.limit)
		enter := func(cost int64) *turn {
			c := costing(c, cost)
			got, w := g.enter(0, &c, 0, false)
			if w != nil {
				t.Fatalf("%s: cost %d has to wait", tt.name, cost)
			}
			return &got
		}
		tt.do(enter, &g)
		got := 0
		for ; got < 100; got++ {
			if _, w := g.enter(0, &c, tt.now, false); w != nil {
				break
			}
		}
		if got != tt.want {
			t.Errorf("%s: %d calls may be under way, want %d", tt.name, got, tt.want)
		}
	}
}

func TestFullGateHoldsNobodyBack(t *testing.T) {
	var g gate
	c := check("a/1", "1/h")
	for i := range uint64(gateWays) {
		if turn, w := g.enter(i*denySets*gateSets, &c, 0, false); turn.set == nil || w != nil {
			t.Fatalf("key %d: got %+v, %v, want a turn", i, turn, w)
		}
	}
	turn, w := g.enter(gateWays*denySets*gateSets, &c, 0, false)
	if turn.set != nil || w != nil {
		t.Errorf("one more: got %+v, %v, want leave without a place", turn, w)
	}
}

// Keys that share a hash wait for each other, but not for each other's answers.
func TestAnswerIsSharedOnlyByThoseItIsAbout(t *testing.T) {
	g := newGuard(t, newFake(t, nil), Options{})
	alice := check("alice", "1/h")
	d := headgate.Decision{Limit: 1, RetryAfter: time.Hour, ResetAfter: time.Hour}
	const hash = 42
	why := wake{denial: denialOf(hash, &alice, g.clock.micros(), 1e6, &d, nil), shared: true}
	for _, tt := range []struct {
		name   string
		check  headgate.Check
		shared bool
		want   bool
	}{
		{"alice", alice, true, true},
		{"alice, who came too late", alice, false, false},
		{"bob", check("bob", "1/h"), true, false},
		{"alice under another limit", check("alice", "2/h"), true, false},
	} {
		why.shared = tt.shared
		if _, _, got := g.news([]ask{{check: &tt.check, hash: hash}}, 0, why); got != tt.want {
			t.Errorf("%s: denied %v, want %v", tt.name, got, tt.want)
		}
	}
}
