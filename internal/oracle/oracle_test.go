package oracle_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/oracle"
)

const (
	second = 1_000_000
	minute = 60 * second
	start  = 1767225600 * second // 2026-01-01T00:00:00Z
)

// TestOracleKnowsTheTextbook asks for the examples that everybody can work out by hand.
func TestOracleKnowsTheTextbook(t *testing.T) {
	type ask struct {
		at, n     int64
		allowed   bool
		remaining int64
		retry     time.Duration
		reset     time.Duration
	}
	ms := time.Millisecond
	for limit, asks := range map[string][]ask{
		"10/s": {
			{300_000, 6, true, 4, 0, 600 * ms},
			{500_000, 5, true, 1, 0, 900 * ms},
			{500_000, 2, false, 1, 100 * ms, 900 * ms},
			{1_400_000, 0, true, 10, 0, 0},
			{1_400_000, 11, false, 10, headgate.Never, 0},
		},
		"300/s gcra burst 1": {
			{0, 1, true, 0, 0, 3334 * time.Microsecond},
			{3_333, 1, false, 0, time.Microsecond, time.Microsecond},
			{3_334, 1, true, 0, 0, 3334 * time.Microsecond},
		},
		"10/m fixed-window": {
			{59 * second, 10, true, 0, 0, time.Second},
			{59 * second, 1, false, 0, time.Second, time.Second},
			{60 * second, 10, true, 0, 0, time.Minute},
		},
		"3/10s sliding-log": {
			{0, 1, true, 2, 0, 10 * time.Second},
			{4 * second, 2, true, 0, 0, 10 * time.Second},
			{7 * second, 1, false, 0, 3 * time.Second, 7 * time.Second},
			{7 * second, 2, false, 0, 7 * time.Second, 7 * time.Second},
			{10 * second, 1, true, 0, 0, 10 * time.Second},
		},
		"100/h sliding-window": {
			{30 * minute, 100, true, 0, 0, 89*time.Minute + 42*time.Second}, // half a unit at 99.5 % of the next hour
			{75 * minute, 25, true, 0, 0, 103*time.Minute + 48*time.Second}, // of the 25, at 98 % of the one after
			{75 * minute, 1, false, 0, 18 * time.Second, 103*time.Minute + 48*time.Second},
		},
		"100/h sliding-buckets 3": {
			{5 * minute, 10, true, 90, 0, 55 * time.Minute},
			{25 * minute, 20, true, 70, 0, 55 * time.Minute},
			{45 * minute, 30, true, 40, 0, 55 * time.Minute},
			{45 * minute, 41, false, 40, 15 * time.Minute, 55 * time.Minute},
			{60 * minute, 0, true, 50, 0, 40 * time.Minute},
		},
		"2 concurrent ttl 30s": {
			{0, 1, true, 1, 0, 30 * time.Second},
			{second, 1, true, 0, 0, 30 * time.Second},
			{2 * second, 1, false, 0, 28 * time.Second, 29 * time.Second},
			{30 * second, 1, true, 0, 0, 30 * time.Second},
		},
	} {
		o := oracle.New(headgate.MustParseLimit(limit))
		for i, a := range asks {
			d := o.Take(start+a.at, a.n, uint64(i+1))
			got := ask{a.at, a.n, d.Allowed, d.Remaining, d.RetryAfter, d.ResetAfter}
			if got != a {
				t.Errorf("%s: got %+v, want %+v", limit, got, a)
			}
		}
	}
}

func TestOracleOfALeakyBucketDelays(t *testing.T) {
	o := oracle.New(headgate.MustParseLimit("10/s leaky-bucket burst 3"))
	for i := range 3 {
		if d := o.Take(start, 1, 0); d.Delay != time.Duration(100*i)*time.Millisecond {
			t.Errorf("request %d: got delay %v", i, d.Delay)
		}
	}
}

func TestOracleOfDebtsAndRefunds(t *testing.T) {
	o := oracle.New(headgate.MustParseLimit("4/s"))
	if d := o.Charge(start, 12); d.Remaining != -8 || d.Allowed {
		t.Errorf("three hosts: got %+v", d)
	}
	if d := o.Charge(start, 100); d.Remaining != -40 || d.Receipt.Units != 32 {
		t.Errorf("deepest debt: got %+v", d)
	}
	l := headgate.MustParseLimit("10/s")
	o = oracle.New(l)
	d := o.Take(start, 10, 0)
	o.Give(start+second/2, 10, l, d.Receipt)
	if d := o.Take(start+second/2, 10, 0); !d.Allowed {
		t.Errorf("after a refund: got %+v", d)
	}
	o.Give(start+2*second, 10, l, d.Receipt)
	if d := o.Take(start+2*second, 0, 0); d.Remaining != 10 {
		t.Errorf("after a late refund: got %+v", d)
	}
}

// TestOracleOfAChangedLimit asks for what DESIGN's rule says, worked out by hand.
func TestOracleOfAChangedLimit(t *testing.T) {
	type step struct {
		at        int64
		limit     string
		n         int64
		allowed   bool
		remaining int64
		retry     time.Duration
	}
	for name, steps := range map[string][]step{
		"a lower rate counts nothing again": {
			{0, "777/h burst 10", 10, true, 0, 0},
			{19 * minute, "777/h burst 10", 3, true, 7, 0}, // all of the ten have drained
			{19 * minute, "10/h burst 10", 1, true, 6, 0},
			{25 * minute, "10/h burst 10", 0, true, 7, 0}, // a unit in six minutes
		},
		"a part of a unit counts whole": {
			{0, "7/m", 2, true, 5, 0},
			{5 * second, "7/m", 1, true, 4, 0}, // 2.42 of 7
			{5 * second, "1/m", 0, false, -2, 2 * time.Minute},
		},
		"a higher rate drains from the latest decision on": {
			{0, "1/m burst 5", 4, true, 1, 0},
			{30 * second, "1/m burst 5", 1, true, 0, 0},  // 4.5 of 5
			{31 * second, "60/m burst 5", 1, true, 0, 0}, // 5 at 30 s, of which 1 has drained
			{31 * second, "60/m burst 5", 1, false, 0, time.Second},
		},
		"nothing counts after it has drained": {
			{0, "10/s", 10, true, 0, 0},
			{2 * second, "10/d", 0, true, 10, 0},
		},
		"a shorter window that holds the latest decision": {
			{5 * minute, "10/d fixed-window", 9, true, 1, 0},
			{6 * minute, "10/h fixed-window", 2, false, 1, 54 * time.Minute},
			{60 * minute, "10/h fixed-window", 10, true, 0, 0},
		},
		"units of a log keep their times": {
			{0, "5/10m sliding-log", 2, true, 3, 0},
			{4 * minute, "5/10m sliding-log", 2, true, 1, 0},
			{5 * minute, "5/8m sliding-log", 2, false, 1, 3 * time.Minute},
			{8 * minute, "5/8m sliding-log", 0, true, 3, 0},
		},
		"two windows become a bucket": {
			{30 * minute, "100/h sliding-window", 100, true, 0, 0},
			{75 * minute, "100/h sliding-window", 25, true, 0, 0}, // 75 of the hour before weigh
			{75 * minute, "60/h burst 120", 0, true, 20, 0},
			{76 * minute, "60/h burst 120", 0, true, 21, 0},
		},
	} {
		o := oracle.New(headgate.MustParseLimit(steps[0].limit))
		for _, s := range steps {
			o.Change(headgate.MustParseLimit(s.limit))
			d := o.Take(start+s.at, s.n, 0)
			if got := (step{s.at, s.limit, s.n, d.Allowed, d.Remaining, d.RetryAfter}); got != s {
				t.Errorf("%s: got %+v, want %+v", name, got, s)
			}
		}
	}
}
