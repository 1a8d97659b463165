package headgate_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
)

func TestTightest(t *testing.T) {
	type decision = headgate.Decision
	allow := func(remaining, limit int64) decision {
		return decision{Allowed: true, Remaining: remaining, Limit: limit}
	}
	deny := func(retry time.Duration, limit int64) decision { return decision{RetryAfter: retry, Limit: limit} }
	for _, test := range []struct {
		name string
		of   []decision
		want decision
	}{
		{"none", nil, decision{}},
		{"one", []decision{allow(5, 1)}, allow(5, 1)},
		{"least remaining", []decision{allow(5, 1), allow(3, 2), allow(4, 3)}, allow(3, 2)},
		{"first of equals", []decision{allow(3, 1), allow(3, 2)}, allow(3, 1)},
		{"denied before allowed", []decision{allow(0, 1), deny(1, 2), allow(-5, 3)}, deny(1, 2)},
		{"denied first", []decision{deny(1, 1), allow(0, 2)}, deny(1, 1)},
		{"longest retry", []decision{deny(1, 1), allow(0, 2), deny(3, 3), deny(2, 4)}, deny(3, 3)},
		{"never is longest", []decision{deny(time.Hour, 1), deny(headgate.Never, 2)}, deny(headgate.Never, 2)},
		{"first of equal denials", []decision{deny(2, 1), deny(2, 2)}, deny(2, 1)},
	} {
		if got := headgate.Tightest(test.of); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestReceiptOfADelay(t *testing.T) {
	for _, test := range []struct {
		name     string
		at, want int64
	}{
		{"a store's", 1_800_000_000_000_000, 1_800_000_001_500_000},
		{"at zero", 0, 1_500_000},
		{"nothing was counted", -1, -1},
		{"a fallback's", -2 - 1_800_000_000_000_000, -2 - 1_800_000_001_500_000},
	} {
		r := headgate.Receipt{At: test.at, Units: 3, Lease: 7}
		want := headgate.Receipt{At: test.want, Units: 3, Lease: 7}
		if got := r.Delayed(1500 * time.Millisecond); got != want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, want)
		}
	}
}

func TestAllowed(t *testing.T) {
	yes, no := headgate.Decision{Allowed: true}, headgate.Decision{}
	for _, test := range []struct {
		of   []headgate.Decision
		want bool
	}{
		{nil, true},
		{[]headgate.Decision{yes, yes}, true},
		{[]headgate.Decision{yes, no}, false},
		{[]headgate.Decision{no, yes}, false},
	} {
		if got := headgate.Allowed(test.of); got != test.want {
			t.Errorf("%+v: got %v, want %v", test.of, got, test.want)
		}
	}
}
