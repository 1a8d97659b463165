package guard

import (
	"testing"
)

func TestDenialCoversLargerCostsIfKnown(t *testing.T) {
	for _, tt := range []struct {
		limit string
		holds bool
	}{{"10/s", true}, {"10/h fixed-window", true}, {"3/s burst 10", false}, {"10/h sliding-window", false}, {"10 concurrent", false}} {
		inBubble(t, func(t *testing.T) {
			f := newFake(t, nil)
			g := newGuard(t, f, Options{})
			c := check("a/1", tt.limit)
			take(t, g, costing(c, 8))
			for _, step := range []struct {
				cost  int64
				calls int64 // beyond those before, if it holds for larger costs, and if not
				other int64
			}{
				{3, 1, 1}, {3, 0, 0}, {4, 0, 1}, {4, 0, 0}, {10, 0, 1}, {11, 0, 1}, {1000, 0, 0}, {3, 0, 0}, {2, 1, 1},
			} {
				calls := f.calls.Load()
				d := take(t, g, costing(c, step.cost))
				want := step.calls
				if !tt.holds {
					want = step.other
				}
				if got := f.calls.Load() - calls; got != want || d.Allowed != (step.cost == 2) {
					t.Errorf("%s: cost %d: %d calls, want %d; got %+v", tt.limit, step.cost, got, want, d)
				}
			}
		})
	}
}
