package pacer

import (
	"testing"
	"time"
)

func TestAllowanceSteps(t *testing.T) {
	w := &window{period: int64(time.Second), limit: 10}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"all of a period at once, then the next", []step{
			{0, 10, 0}, {0, 1, time.Second}, {0, 9, time.Second}, {0, 1, 2 * time.Second},
		}},
		{"what is left over is gone", []step{
			{0, 1, 0}, {1500 * ms, 10, 0}, {1500 * ms, 1, 500 * ms},
		}},
		{"a request is never split over two periods", []step{
			{0, 6, 0}, {0, 6, time.Second}, {0, 4, time.Second}, {0, 1, 2 * time.Second},
		}},
		{"nobody gets into a period that an earlier caller has passed over", []step{
			{0, 6, 0}, {100 * ms, 5, 900 * ms}, {200 * ms, 1, 800 * ms},
		}},
		{"a period starts on its nanosecond", []step{
			{0, 10, 0}, {time.Second - 1, 1, 1}, {time.Second, 9, 0}, {2*time.Second - 1, 1, 1},
		}},
		{"periods stay in step over a long time", []step{
			{1_000_000*time.Second + 999*ms, 10, 0}, {1_000_000*time.Second + 999*ms, 1, 1 * ms},
		}},
		{"a clock that steps back adds nothing", []step{
			{5 * time.Second, 10, 0}, {0, 1, 6 * time.Second},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { playSteps(t, w, state{}, c.steps) })
	}
}

func TestNoPeriodHasMoreThanItsPermits(t *testing.T) {
	r := Rate{Permits: 20, Per: time.Second}
	w := &window{period: int64(r.Per), limit: r.Permits}
	grants, counts := traffic(t, w, state{}, r, 20, 13)
	periods := map[int64]int64{}
	for i, grant := range grants {
		period := grant / w.period
		if periods[period] += counts[i]; periods[period] > r.Permits {
			t.Fatalf("request %d: period %d has %d permits, want at most %d", i, period, periods[period], r.Permits)
		}
		if i > 0 && grant < grants[i-1] {
			t.Fatalf("request %d is granted at %d, before request %d at %d", i, grant, i-1, grants[i-1])
		}
	}
}
