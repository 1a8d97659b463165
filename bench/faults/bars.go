package faults

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/headgate/headgate/bench/harness"
)

// A faultBar is a time that a test logs, and its maximum. If the test logs it several times, the longest time counts.
type faultBar struct {
	test, what string
	said       *regexp.Regexp // with the time in its first group
	most       time.Duration
}

// The tests log these times on the machine on which they run. The tests themselves accept longer times, because
// machines may be busy.
func faultTimes() []faultBar {
	const (
		hot     = "TestDeniedHotKeyHardlyCallsTheServer"
		hang    = "TestHungServerIsSurvived"
		cluster = "TestKilledClusterPrimaryCausesNoErrors"

		deadline    = 20 * time.Millisecond
		nodeTimeout = 1500 * time.Millisecond
	)
	return []faultBar{
		{
			hot, "a denial from memory, p99", regexp.MustCompile(`denials from memory: .*?p99 ([^\s;]+);`),
			5 * time.Microsecond,
		},
		{
			hang, "SIGSTOP, a call until the circuit opens, p99.9", regexp.MustCompile(`until then: .*p99\.9 (\S+),`),
			deadline + 5*time.Millisecond,
		},
		{hang, "SIGSTOP, a call after that, p99", regexp.MustCompile(`^then: p50 \S+, p99 (\S+),`), time.Millisecond},
		{hang, "exact again after SIGCONT", regexp.MustCompile(`^exact (\S+) after the end`), 2 * time.Second},
		{
			cluster, "exact again after SIGKILL of a primary, whose cluster-node-timeout is 1.5 s",
			regexp.MustCompile(`last degraded decision ([^\s,]+)`), nodeTimeout + 2*time.Second,
		},
		{
			cluster, "exact again after the cluster itself has another primary",
			regexp.MustCompile(`last degraded decision \S+ (\S+) after that`), 500 * time.Millisecond,
		},
	}
}

// bar compares the logged time with the bar.
func (f *faultBar) bar(r *harness.Results) harness.Bar {
	want := fmt.Sprintf("≤ %s", f.most)
	longest, ok := longest(r, f.test, f.said)
	if !ok {
		return harness.UnmeasuredBar(f.what, want)
	}
	return harness.JudgedBar(f.what, want, humanLongest(longest), longest <= f.most)
}

// longest returns the longest time that a test has logged. The first group of the pattern matches a time.
func longest(r *harness.Results, test string, said *regexp.Regexp) (longest time.Duration, ok bool) {
	for _, row := range r.Faults {
		if row.Test != test {
			continue
		}
		for _, text := range row.Said {
			m := said.FindStringSubmatch(text)
			if m == nil {
				continue
			}
			if took, err := time.ParseDuration(m[1]); err == nil {
				longest, ok = max(longest, took), true
			}
		}
	}
	return longest, ok
}

// humanLongest formats a time with enough digits to compare it with a bar of some seconds.
func humanLongest(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return harness.HumanDuration(float64(d))
}

// faultBars checks that all tests passed, and compares their times with the bars.
func faultBars(r *harness.Results) []harness.Bar {
	const want = "all tests pass"
	if len(r.Faults) == 0 {
		return []harness.Bar{harness.UnmeasuredBar("faults", want)}
	}
	passed := 0
	for _, f := range r.Faults {
		if f.Passed {
			passed++
		}
	}
	bars := []harness.Bar{harness.JudgedBar("faults", want, fmt.Sprintf("%d of %d", passed, len(r.Faults)),
		passed == len(r.Faults))}
	// A quick run has only some of the tests.
	asked := func(test string) bool {
		return !r.Quick || slices.ContainsFunc(r.Faults, func(f harness.TestRow) bool { return f.Test == test })
	}
	for _, f := range faultTimes() {
		if asked(f.test) {
			bars = append(bars, f.bar(r))
		}
	}
	return bars
}
