package service

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/bench/harness"
)

const redisBenchmarkSaid = `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"CL.THROTTLE key:__rand_int__ 15 30 60","250000.00","0.427","0.096","0.431","0.583","0.695","1.871"
`

func TestWhatRedisBenchmarkSays(t *testing.T) {
	got, err := readRedisBenchmark(redisBenchmarkSaid, 500_000)
	want := loadResult{Ops: 500_000, Took: 2 * time.Second, P50: 431 * time.Microsecond, P99: 695 * time.Microsecond}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for name, said := range map[string]string{
		"nothing":      "",
		"no numbers":   strings.SplitAfter(redisBenchmarkSaid, "\n")[0],
		"an error":     "Error from server: ERR unknown command\n" + redisBenchmarkSaid,
		"no p99":       strings.Replace(redisBenchmarkSaid, "p99", "p98", 1),
		"no rate":      strings.Replace(redisBenchmarkSaid, "250000.00", "nan?", 1),
		"a rate of 0":  strings.Replace(redisBenchmarkSaid, "250000.00", "0.00", 1),
		"too few cols": strings.Replace(redisBenchmarkSaid, `,"1.871"`, "", 1),
	} {
		if got, err := readRedisBenchmark(said, 1); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

// respResults are results in which headgate is so many times as fast as everybody else, and everybody else has the
// same.
func respResults(times float64) *harness.Results {
	run := func(times float64) []harness.ServiceRun {
		return []harness.ServiceRun{{Rate: 1000 * times, P99: 1000 / times, CPU: 1 / times, Busy: 1, LoadBusy: 0.5}}
	}
	r := &harness.Results{Part: "service"}
	for _, id := range []string{"resp-pipelined", "resp-single", "resp-idle"} {
		t := harness.ServiceTable{ID: id}
		for _, name := range []string{"headgate", "headgate-take"} {
			t.Rows = append(t.Rows, harness.ServiceRow{Contender: name, Title: name, Role: harness.Ours, Runs: run(times)})
		}
		for _, name := range []string{"incr", "evalsha", "ping"} {
			t.Rows = append(t.Rows, harness.ServiceRow{Contender: name, Title: name, Role: harness.Peer, Runs: run(1)})
		}
		r.Service = append(r.Service, t)
	}
	return r
}

func TestTheBarsOfRESP(t *testing.T) {
	for _, test := range []struct {
		times float64
		want  string // one letter a bar: m is met
	}{
		{5, "mmmmmmmmm"},
		{1.2, "mmnnnmmmm"},
		{1, "mnnnnmnmm"},
		{0.92, "nnnnnmnmm"},
		{0.6, "nnnnnnnnn"},
	} {
		got := ""
		for _, b := range respBars(respResults(test.times)) {
			got += map[string]string{harness.Met: "m", harness.NotMet: "n", harness.NotMeasured: "?"}[b.Verdict]
		}
		if got != test.want {
			t.Errorf("%g times as fast: got %s, want %s", test.times, got, test.want)
		}
	}
	for _, b := range respBars(&harness.Results{}) {
		if b.Verdict != harness.NotMeasured {
			t.Errorf("without a measurement %q is %s", b.What, b.Verdict)
		}
	}
}

func TestTheReportSaysWhoWasHeldUpByTheLoad(t *testing.T) {
	r := respResults(2)
	row := r.ServiceNamed("resp-single").Row("headgate")
	row.Runs[0].Busy, row.Runs[0].LoadBusy = 0.6, 0.99
	b := r.ServiceNamed("resp-single").RatesAbove("headgate", "incr", "one at a time", 1, "")
	if !strings.Contains(b.Measured, "headgate was not at its end, by CPU 2.00 ×") {
		t.Errorf("got %q, want it to say that headgate could do more", b.Measured)
	}
	b = r.ServiceNamed("resp-pipelined").RatesAbove("headgate", "incr", "pipelined", 1, "")
	if strings.Contains(b.Measured, "at its end") {
		t.Errorf("got %q of two that were at their end", b.Measured)
	}
}
