package headgate_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// inputError fails the test unless err is an *InputError about a field that wraps want, and returns it.
func inputError(t *testing.T, err, want error, field string) headgate.InputError {
	t.Helper()
	var input *headgate.InputError
	switch {
	case !errors.As(err, &input):
		t.Fatalf("got error %v, want an *InputError", err)
	case !errors.Is(err, want):
		t.Fatalf("got error %v, want one that wraps %v", err, want)
	case input.Field != field:
		t.Fatalf("got error %v about %s, want one about %s", err, input.Field, field)
	}
	return *input
}

func TestLimitValidate(t *testing.T) {
	type limit = headgate.Limit
	us := time.Microsecond
	for _, l := range []limit{
		{Count: 1, Period: us},
		{Count: headgate.MaxCount, Period: headgate.MaxPeriod},
		{Count: headgate.MaxCount, Period: us, Burst: headgate.MaxCount},
		{Count: 10, Period: time.Second, Burst: 1},
		{Count: 1, Period: time.Second, Burst: 562949953}, // refills in just less than 2^49 µs
		{Algorithm: headgate.LeakyBucket, Count: 10, Period: time.Second, Burst: 20},
		{Algorithm: headgate.GCRA, Count: 10, Period: time.Second, Burst: 20},
		{Algorithm: headgate.FixedWindow, Count: 10, Period: time.Second, Staggered: true},
		{Algorithm: headgate.SlidingLog, Count: headgate.MaxLogCount, Period: time.Hour},
		{Algorithm: headgate.SlidingWindow, Count: headgate.MaxCount, Period: headgate.MaxPeriod},
		{Algorithm: headgate.SlidingBuckets, Count: 10, Period: 10 * us},
		{Algorithm: headgate.SlidingBuckets, Count: 10, Period: 1000 * us, Buckets: headgate.MaxBuckets},
		{Algorithm: headgate.SlidingBuckets, Count: 10, Period: 2 * us, Buckets: 2},
		{Algorithm: headgate.Concurrency, Count: headgate.MaxLogCount, TTL: headgate.MaxPeriod},
		{Algorithm: headgate.Concurrency, Count: 1, TTL: us},
	} {
		if err := l.Validate(); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
	for _, test := range []struct {
		limit limit
		field string
	}{
		{limit{}, "Count"},
		{limit{Count: -1, Period: us}, "Count"},
		{limit{Count: headgate.MaxCount + 1, Period: us}, "Count"},
		{limit{Count: math.MinInt64, Period: us}, "Count"},
		{limit{Count: 1}, "Period"},
		{limit{Count: 1, Period: -us}, "Period"},
		{limit{Count: 1, Period: 999}, "Period"},
		{limit{Count: 1, Period: us + 1}, "Period"},
		{limit{Count: 1, Period: headgate.MaxPeriod + us}, "Period"},
		{limit{Count: 1, Period: us, Burst: -1}, "Burst"},
		{limit{Count: 1, Period: us, Burst: headgate.MaxCount + 1}, "Burst"},
		{limit{Count: 1, Period: time.Second, Burst: 562949954}, "Burst"},
		{limit{Count: 1, Period: us, Buckets: 2}, "Buckets"},
		{limit{Count: 1, Period: us, TTL: us}, "TTL"},
		{limit{Count: 1, Period: us, Staggered: true}, "Staggered"},
		{limit{Algorithm: headgate.Algorithm(len(headgate.Algorithms())), Count: 1, Period: us}, "Algorithm"},
		{limit{Algorithm: headgate.FixedWindow, Count: 1, Period: us, Burst: 1}, "Burst"},
		{limit{Algorithm: headgate.SlidingLog, Count: headgate.MaxLogCount + 1, Period: us}, "Count"},
		{limit{Algorithm: headgate.SlidingBuckets, Count: 1, Period: us}, "Buckets"},
		{limit{Algorithm: headgate.SlidingBuckets, Count: 1, Period: 10 * us, Buckets: 3}, "Buckets"},
		{limit{Algorithm: headgate.SlidingBuckets, Count: 1, Period: 10 * us, Buckets: 1}, "Buckets"},
		{limit{Algorithm: headgate.SlidingBuckets, Count: 1, Period: 2002 * us, Buckets: 1001}, "Buckets"},
		{limit{Algorithm: headgate.SlidingBuckets, Count: 1, Period: 10 * us, Buckets: -2}, "Buckets"},
		{limit{Algorithm: headgate.Concurrency, Count: 1, Period: us}, "Period"},
		{limit{Algorithm: headgate.Concurrency, Count: 1, TTL: -us}, "TTL"},
		{limit{Algorithm: headgate.Concurrency, Count: 1, TTL: headgate.MaxPeriod + us}, "TTL"},
		{limit{Algorithm: headgate.Concurrency, Count: headgate.MaxLogCount + 1}, "Count"},
		{limit{Algorithm: headgate.Concurrency, Count: 1, Burst: 2}, "Burst"},
	} {
		e := inputError(t, test.limit.Validate(), headgate.ErrInvalidLimit, test.field)
		if e.Want == "" || e.Value == "" {
			t.Errorf("%+v: the error does not say what is wrong and what would be right: %+v", test.limit, e)
		}
		if _, err := test.limit.MarshalText(); err == nil {
			t.Errorf("%+v: marshalled though it is invalid", test.limit)
		}
		_ = test.limit.String() // does not panic
	}
}

func TestLimitCapacity(t *testing.T) {
	if got := headgate.PerSecond(10).Capacity(); got != 10 {
		t.Errorf("10/s: got %d, want 10", got)
	}
	if got := headgate.MustParseLimit("10/s burst 3").Capacity(); got != 3 {
		t.Errorf("10/s burst 3: got %d, want 3", got)
	}
}

func TestConstructors(t *testing.T) {
	for want, got := range map[string]headgate.Limit{
		"10/s":          headgate.PerSecond(10),
		"10/m":          headgate.PerMinute(10),
		"10/h":          headgate.PerHour(10),
		"10/7d":         headgate.Per(10, 7*24*time.Hour),
		"10 concurrent": headgate.InFlight(10),
	} {
		if parsed := headgate.MustParseLimit(want); got != parsed || got.String() != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}

func TestAlgorithmNames(t *testing.T) {
	for _, a := range headgate.Algorithms() {
		if parsed, err := headgate.ParseAlgorithm(a.String()); err != nil || parsed != a {
			t.Errorf("%s: parsed as %v, %v", a, parsed, err)
		}
	}
	for a, want := range map[headgate.Algorithm]string{100: "Algorithm(100)", headgate.FirstCustom + 72: "custom-72"} {
		if got := a.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	_, err := headgate.ParseAlgorithm("token bucket")
	if e := inputError(t, err, headgate.ErrInvalidLimit, "Algorithm"); !strings.Contains(e.Want, "token-bucket, leaky-bucket") {
		t.Errorf("the error does not list the algorithms: %+v", e)
	}
}
