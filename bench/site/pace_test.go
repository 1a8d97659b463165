package site

import (
	"testing"
	"time"

	"github.com/headgate/headgate/bench/stalls"
)

// A stall from 100 to 110 ms is felt until 130 ms, and one from 500 to 501 until 503.
func TestStallsTouchWhatWasDueUntilTheyAreNoLongerFelt(t *testing.T) {
	const ms = time.Millisecond
	all := []stalls.Span{{From: 100 * ms, To: 110 * ms}, {From: 500 * ms, To: 501 * ms}}
	for _, test := range []struct {
		name string
		one  timed
		want bool
	}{
		{"answered before", timed{90 * ms, 99 * ms}, false},
		{"answered when it began", timed{90 * ms, 100 * ms}, true},
		{"around it", timed{90 * ms, 200 * ms}, true},
		{"due in it", timed{105 * ms, 111 * ms}, true},
		{"due while it was felt", timed{130 * ms, 131 * ms}, true},
		{"due later", timed{131 * ms, 132 * ms}, false},
		{"around the other", timed{131 * ms, 600 * ms}, true},
		{"due long after both", timed{20_000 * ms, 20_001 * ms}, false},
	} {
		if got := test.one.touched(all); got != test.want {
			t.Errorf("%s: touched %t, want %t", test.name, got, test.want)
		}
	}
	list := []timed{{0, 10 * ms}, {95 * ms, 300 * ms}, {200 * ms, 220 * ms}}
	if got := calm(list, all); got.Requests != 2 || got.P999 != int64(20*ms) {
		t.Errorf("of the three, got %+v, want the two that no stall touched, the longer of 20ms", got)
	}
	if got := calm(list, nil); got.Requests != 3 {
		t.Errorf("without stalls, got %+v, want all three", got)
	}
}
