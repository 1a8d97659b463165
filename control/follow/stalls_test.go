package follow_test

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

// A span is from when to when something lasted.
type span struct{ from, to time.Duration }

// without returns how long it lasted without the time in which the machine stood still.
func (s span) without(stalls []span) time.Duration {
	left := s.to - s.from
	for _, o := range joined(stalls) {
		left -= max(0, min(s.to, o.to)-max(s.from, o.from))
	}
	return left
}

// joined returns spans in order, those that overlap as one.
func joined(list []span) []span {
	list = slices.SortedFunc(slices.Values(list), func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var made []span
	for _, s := range list {
		if n := len(made); n > 0 && s.from <= made[n-1].to {
			made[n-1].to = max(made[n-1].to, s.to)
		} else {
			made = append(made, s)
		}
	}
	return made
}

func TestStallsAreTakenOffOnce(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tt := range []struct {
		name   string
		stalls []span
		want   time.Duration
	}{
		{"none", nil, 6 * ms},
		{"before and after", []span{{0, 10 * ms}, {16 * ms, 20 * ms}}, 6 * ms},
		{"within", []span{{11 * ms, 13 * ms}}, 4 * ms},
		{"at the ends", []span{{15 * ms, 20 * ms}, {9 * ms, 11 * ms}}, 4 * ms},
		{"on two cores at once", []span{{11 * ms, 14 * ms}, {12 * ms, 15 * ms}}, 2 * ms},
		{"all of it", []span{{0, time.Second}}, 0},
	} {
		if got := (span{10 * ms, 16 * ms}).without(tt.stalls); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
