package stalls

import (
	"testing"
	"time"
)

func TestStallsAreTakenOffOnce(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tt := range []struct {
		name   string
		stalls []Span
		want   time.Duration
	}{
		{"none", nil, 6 * ms},
		{"before and after", []Span{{0, 10 * ms}, {16 * ms, 20 * ms}}, 6 * ms},
		{"within", []Span{{11 * ms, 13 * ms}}, 4 * ms},
		{"at the ends", []Span{{15 * ms, 20 * ms}, {9 * ms, 11 * ms}}, 4 * ms},
		{"on two cores at once", []Span{{11 * ms, 14 * ms}, {12 * ms, 15 * ms}}, 2 * ms},
		{"all of it", []Span{{0, time.Second}}, 0},
	} {
		if got := (Span{10 * ms, 16 * ms}).Without(tt.stalls); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
