package admission

import "testing"

// The units that could pass are estimated from responses and their times.
func TestEstimateOfUnitsThatCouldPass(t *testing.T) {
	const second = 1_000_000 // µs
	for _, tt := range []struct {
		name  string
		limit string
		do    func(enter func(cost int64) *Turn, g *KeyGate) // at 0 s
		now   int64
		want  int // additional calls of one unit that may be in flight
	}{
		{
			name: "a key that is not known", limit: "5/h",
			do: func(func(int64) *Turn, *KeyGate) {}, want: 5,
		},
		{
			name: "besides those under way", limit: "5/h",
			do: func(enter func(int64) *Turn, _ *KeyGate) { enter(1); enter(3) }, want: 1,
		},
		{
			name: "others have taken", limit: "10/h",
			do: func(enter func(int64) *Turn, _ *KeyGate) {
				enter(1).Leave(Result{Kind: Taken, Remaining: 2}, 0)
			}, want: 2,
		},
		{
			name: "a call that was not made", limit: "3/h",
			do: func(enter func(int64) *Turn, _ *KeyGate) {
				enter(1)
				enter(1)
				enter(1).Leave(Result{}, 0)
			}, want: 1,
		},
		{
			name: "a call that was not answered may have taken", limit: "3/h",
			do: func(enter func(int64) *Turn, _ *KeyGate) {
				enter(1)
				enter(1).Leave(Result{Kind: NoResponse}, 0)
			}, want: 1,
		},
		{
			name: "a denial takes nothing", limit: "10/h",
			do: func(enter func(int64) *Turn, _ *KeyGate) {
				enter(5)
				enter(5).Leave(Result{Kind: NotTaken, Remaining: 4}, 0)
			}, want: 4,
		},
		{
			name: "somebody else has given back", limit: "10/h",
			do: func(enter func(int64) *Turn, _ *KeyGate) {
				enter(10).Leave(Result{Kind: Taken}, 0)
				enter(1).Leave(Result{Kind: Taken, Remaining: 7}, 0)
			}, want: 7,
		},
		{
			name: "an answer that was overtaken", limit: "3/h",
			do: func(enter func(int64) *Turn, _ *KeyGate) {
				first, second, third := enter(1), enter(1), enter(1)
				third.Leave(Result{Kind: Taken, Remaining: 0}, 0)
				second.Leave(Result{Kind: Taken, Remaining: 1}, 0)
				first.Leave(Result{Kind: Taken, Remaining: 2}, 0)
			}, want: 1, // as always
		},
		{
			name: "time gives back", limit: "10/s burst 20",
			do: func(enter func(int64) *Turn, _ *KeyGate) {
				enter(20).Leave(Result{Kind: Taken}, 0)
			}, now: second / 2, want: 5,
		},
		{
			name: "but not more than there can be", limit: "10/s burst 20",
			do: func(enter func(int64) *Turn, _ *KeyGate) {
				enter(20).Leave(Result{Kind: Taken}, 0)
			}, now: 60 * second, want: 20,
		},
		{
			name: "nor places", limit: "5 concurrent",
			do: func(enter func(int64) *Turn, _ *KeyGate) {
				enter(5).Leave(Result{Kind: Taken}, 0)
			}, now: 60 * second, want: 1,
		},
		{
			name: "a place is given back", limit: "5 concurrent",
			do: func(enter func(int64) *Turn, g *KeyGate) {
				enter(5).Leave(Result{Kind: Taken}, 0)
				g.Add(0, 3, 0)
			}, want: 3,
		},
		{
			name: "a reset", limit: "5/h",
			do: func(enter func(int64) *Turn, g *KeyGate) {
				enter(4).Leave(Result{Kind: Taken, Remaining: 1}, 0)
				enter(1)
				g.Reset(0, 0)
			}, want: 4,
		},
		{
			name: "an answer that says nothing", limit: "5/h",
			do: func(enter func(int64) *Turn, _ *KeyGate) {
				enter(5).Leave(Result{Kind: Unclear}, 0)
			}, want: 100,
		},
	} {
		var g KeyGate
		c := check("a/1", tt.limit)
		enter := func(cost int64) *Turn {
			c := c
			c.Cost = cost
			got, w := g.Enter(0, &c, 0, false)
			if w != nil {
				t.Fatalf("%s: cost %d has to wait", tt.name, cost)
			}
			return &got
		}
		tt.do(enter, &g)
		got := 0
		for ; got < 100; got++ {
			if _, w := g.Enter(0, &c, tt.now, false); w != nil {
				break
			}
		}
		if got != tt.want {
			t.Errorf("%s: %d calls may be under way, want %d", tt.name, got, tt.want)
		}
	}
}

func TestFullGateHoldsNoCallBack(t *testing.T) {
	var g KeyGate
	c := check("a/1", "1/h")
	for i := range uint64(keysPerGate) {
		if turn, w := g.Enter(i*denySets*gateSets, &c, 0, false); !turn.Held() || w != nil {
			t.Fatalf("key %d: got %+v, %v, want a turn", i, turn, w)
		}
	}
	turn, w := g.Enter(keysPerGate*denySets*gateSets, &c, 0, false)
	if turn.Held() || w != nil {
		t.Errorf("one more: got %+v, %v, want a turn that is not held", turn, w)
	}
}
