package main

import (
	"slices"
	"testing"

	"github.com/headgate/headgate/bench/core"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

// verdicts returns the verdict of every bar, by what it asks.
func verdicts(r *harness.Results) map[string]string {
	all := map[string]string{}
	for _, b := range core.Bars(r) {
		all[b.What+" "+b.Want] = b.Verdict
	}
	return all
}

func TestBarsFollowTheNumbers(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(r *harness.Results)
		bar    string
		before string
		after  string
	}{
		{
			"a faster peer", func(r *harness.Results) { setMedian(r, "uniform-1", "quick", 399) },
			"1 M keys, uniform, 1 goroutine ≥ 2 × the fastest peer", harness.Met, harness.NotMet,
		},
		{
			"a faster floor", func(r *harness.Results) { setMedian(r, "uniform-1", "floor", 150) },
			"1 M keys, uniform, 1 goroutine ≤ 1.3 × the floor's time", harness.Met, harness.NotMet,
		},
		{
			"an allocation in ten", func(r *harness.Results) { r.SpeedNamed("uniform-1").Row("headgate").Allocs = 0.1 },
			"1 M keys, uniform, 1 goroutine 0 allocations", harness.Met, harness.NotMet,
		},
		{
			"two goroutines in each other's way", func(r *harness.Results) { setMedian(r, "uniform-2", "headgate", 130) },
			"1 M keys, uniform, 2 goroutines against 1 ≥ 1.7 × the rate", harness.Met, harness.NotMet,
		},
		{
			"a slower peer on the hot key", func(r *harness.Results) { setMedian(r, "hot-allowed-many", "quick", 61) },
			"one hot key, admitted, many goroutines ≥ 1 × the fastest peer", harness.NotMet, harness.Met,
		},
		{
			"slower than 10 M/s and than three quarters of the floor", func(r *harness.Results) { setMedian(r, "zipf-2", "headgate", 120) },
			"1 M keys, Zipf, 2 goroutines ≥ 10 M decisions/s or ≥ 0.75 × the floor's", harness.Met, harness.NotMet,
		},
		{
			"slower than 10 M/s but so is the floor", func(r *harness.Results) {
				setMedian(r, "zipf-2", "headgate", 120)
				setMedian(r, "zipf-2", "floor", 100)
			},
			"1 M keys, Zipf, 2 goroutines ≥ 10 M decisions/s or ≥ 0.75 × the floor's", harness.Met, harness.Met,
		},
		{
			"a smaller table", func(r *harness.Results) { r.Table.Most.Bytes = 40 * r.Table.Most.Keys },
			"token-bucket table, any size ≤ 40 B a key", harness.NotMet, harness.Met,
		},
		{
			"one size that doubles while it grows", func(r *harness.Results) { r.Memory[0].Fillings[2] = sampleFilling(5_000_000, 28, 2) },
			"peak RSS while growing, any size ≤ 1.5 × RSS afterwards", harness.Met, harness.NotMet,
		},
		{
			"a larger table of 100 M", func(r *harness.Results) { r.Huge.Fillings["headgate"] = sampleFilling(100_000_000, 33, 1) },
			"100 M keys, peak RSS ≤ 3.0 GiB", harness.Met, harness.NotMet,
		},
		{
			"a dearer collection", func(r *harness.Results) { r.GC[1].CPU = harness.SpreadOf([]float64{10.1}) },
			"10 M keys, a full collection ≤ 10 ms CPU", harness.Met, harness.NotMet,
		},
		{
			"a shorter pause", func(r *harness.Results) { r.GC[1].Pause = harness.SpreadOf([]float64{0.54}) },
			"10 M keys, longest pause ≤ 0.5 ms over an empty process's", harness.NotMet, harness.Met,
		},
		{
			"longer steps", func(r *harness.Results) { r.Growth[1].Runs[1].LongSteps = 90 },
			"growth to 10 M keys, steps of rehashing and sweeping over 100 µs no more than decisions of the floor, which has no such steps", harness.Met, harness.NotMet,
		},
		{
			"a smoother growth", func(r *harness.Results) { r.Growth[1].Runs[0].P9999 = 100_000 },
			"growth to 10 M keys, p99.99 ≤ 200 µs", harness.NotMet, harness.Met,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := sampleResults()
			if got := verdicts(r)[test.bar]; got != test.before {
				t.Fatalf("before: %q is %q, want %q", test.bar, got, test.before)
			}
			test.change(r)
			if got := verdicts(r)[test.bar]; got != test.after {
				t.Errorf("after: %q is %q, want %q", test.bar, got, test.after)
			}
		})
	}
}

func setMedian(r *harness.Results, table, contender string, ns float64) {
	r.SpeedNamed(table).Row(contender).Spread.Median = ns
}

func TestBarsOfNothingAreNotMeasured(t *testing.T) {
	full := core.Bars(sampleResults())
	none := core.Bars(&harness.Results{Sizes: harness.FullSizes(11)})
	if len(full) != len(none) {
		t.Errorf("%d bars without numbers, %d with", len(none), len(full))
	}
	for _, b := range none {
		if b.Verdict != harness.NotMeasured || b.Measured != "" {
			t.Errorf("bar %q is %q, %q, want not measured", b.What, b.Verdict, b.Measured)
		}
	}
}

func TestGrowersAreTheFastestPeers(t *testing.T) {
	r := sampleResults()
	if got, want := core.Growers(r), []string{"headgate", "quick", "slow", "floor", "loop"}; !slices.Equal(got, want) {
		t.Errorf("growers = %v, want %v", got, want)
	}
	for _, name := range core.Growers(&harness.Results{}) {
		if _, err := limiters.EntryNamed(limiters.Entries(), name); err != nil {
			t.Error(err)
		}
	}
}
