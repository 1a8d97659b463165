package site

import (
	"testing"
	"time"
)

func TestCoreTimesAreThoseOfTheCore(t *testing.T) {
	const stat = "cpu  999 0 999 999 0 0 0 0 0 0\n" +
		"cpu0 100 20 30 1000 50 6 7 8 0 0\n" +
		"cpu1 1 0 0 9 0 0 0 0 5 0\n" +
		"cpu10 1 1 1 1 1 1 1 1 0 0\n" +
		"intr 1 2 3\n"
	for _, test := range []struct {
		core int
		want coreTimes
	}{
		{0, coreTimes{up: 12210 * time.Millisecond, busy: 1710 * time.Millisecond}},
		{1, coreTimes{up: 100 * time.Millisecond, busy: 10 * time.Millisecond}},
	} {
		if got, err := parseCore(stat, test.core); err != nil || got != test.want {
			t.Errorf("core %d: got %+v, %v; want %+v", test.core, got, err, test.want)
		}
	}
	if got, err := parseCore(stat, 2); err == nil {
		t.Errorf("core 2, which is not there: got %+v", got)
	}
	later := coreTimes{up: 5 * time.Second, busy: 4 * time.Second}
	if got := later.Since(coreTimes{up: time.Second, busy: time.Second}).Share(); got != 0.75 {
		t.Errorf("busy for 3 s of 4: a share of %v, want 0.75", got)
	}
}
