package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/bench/harness"
)

// halfRow returns a row whose rounds have these times, p99.
func halfRow(name string, list ...time.Duration) harness.PaceRow {
	row := harness.PaceRow{Contender: name, Title: name}
	for _, d := range list {
		row.Runs = append(row.Runs, harness.Pacing{Requests: 1000, P50: int64(d / 4), P99: int64(d), P999: int64(2 * d), Max: int64(3 * d)})
	}
	return row
}

func TestHalfLoadIsHeldAgainstTheMiddleRound(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		name    string
		ours    []time.Duration
		want    string
		verdict string
	}{
		{"one round that stood still", []time.Duration{ms, 2 * ms, 900 * ms}, "2.0 ms (quartiles 1.5 ms–451.0 ms); the script alone: 3.0 ms (3.0 ms–3.0 ms)", harness.Met},
		{"usually more, however long the script takes", []time.Duration{ms, 2*ms + 1, 3 * ms}, "2.0 ms (quartiles 1.5 ms–2.5 ms); the script alone: 3.0 ms (3.0 ms–3.0 ms)", harness.NotMet},
		{"nothing", nil, "", harness.NotMeasured},
	} {
		r := &harness.Results{Half: &harness.PaceTable{Rows: []harness.PaceRow{halfRow("redis-guard", test.ours...), halfRow("redis-bare", 3*ms)}}}
		if b := halfLoadBar(r); b.Measured != test.want || b.Verdict != test.verdict {
			t.Errorf("%s: got %q, %s; want %q, %s", test.name, b.Measured, b.Verdict, test.want, test.verdict)
		}
	}
	if b := halfLoadBar(&harness.Results{}); b.Verdict != harness.NotMeasured {
		t.Errorf("of a run without it: got %s", b.Verdict)
	}
}

func TestReportOfHalfLoadTellsOfStalls(t *testing.T) {
	table := &harness.PaceTable{
		Rate: 50_000, Full: 100_000, First: true, Watched: true, Stalls: 7, Stalled: 30 * time.Millisecond, Longest: 12 * time.Millisecond, Took: 30 * time.Second,
		Rows: []harness.PaceRow{halfRow("redis-guard", time.Millisecond, 2*time.Millisecond, 4*time.Millisecond)},
	}
	for _, test := range []struct {
		change func()
		words  []string
	}{
		{func() {}, []string{"redis-guard | 500.0 µs | 2.0 ms | 1.5 ms–3.0 ms | 4.0 ms | 12.0 ms |", "stood still 7 times in 30.0 s: for 30.0 ms together, for 12.0 ms at the longest"}},
		{func() { table.Watched = false }, []string{"no right to real-time priority"}},
	} {
		test.change()
		var b strings.Builder
		reportHalf(&b, &harness.Results{Half: table})
		for _, w := range test.words {
			if !strings.Contains(b.String(), w) {
				t.Errorf("the report lacks %q:\n%s", w, &b)
			}
		}
	}
}
