package main

import (
	"slices"
	"testing"
)

// verdicts returns the verdict of every bar, by what it asks.
func verdicts(r *results) map[string]string {
	all := map[string]string{}
	for _, b := range coreBars(r) {
		all[b.What+" "+b.Want] = b.Verdict
	}
	return all
}

func TestBarsFollowTheNumbers(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(r *results)
		bar    string
		before string
		after  string
	}{
		{
			"a faster peer", func(r *results) { setMedian(r, "uniform-1", "quick", 399) },
			"1 M keys, uniform, 1 goroutine ≥ 2 × the fastest peer", met, notMet,
		},
		{
			"a faster floor", func(r *results) { setMedian(r, "uniform-1", "floor", 150) },
			"1 M keys, uniform, 1 goroutine ≤ 1.3 × the floor's time", met, notMet,
		},
		{
			"an allocation in ten", func(r *results) { r.speed("uniform-1").row("headgate").Allocs = 0.1 },
			"1 M keys, uniform, 1 goroutine 0 allocations", met, notMet,
		},
		{
			"two goroutines in each other's way", func(r *results) { setMedian(r, "uniform-2", "headgate", 130) },
			"1 M keys, uniform, 2 goroutines against 1 ≥ 1.7 × the rate", met, notMet,
		},
		{
			"a slower peer on the hot key", func(r *results) { setMedian(r, "hot-allowed-many", "quick", 61) },
			"one hot key, admitted, many goroutines ≥ 1 × the fastest peer", notMet, met,
		},
		{
			"slower than 10 M/s and than three quarters of the floor", func(r *results) { setMedian(r, "zipf-2", "headgate", 120) },
			"1 M keys, Zipf, 2 goroutines ≥ 10 M decisions/s or ≥ 0.75 × the floor's", met, notMet,
		},
		{
			"slower than 10 M/s but so is the floor", func(r *results) {
				setMedian(r, "zipf-2", "headgate", 120)
				setMedian(r, "zipf-2", "floor", 100)
			},
			"1 M keys, Zipf, 2 goroutines ≥ 10 M decisions/s or ≥ 0.75 × the floor's", met, met,
		},
		{
			"a smaller table", func(r *results) { r.Table.Most.Bytes = 40 * r.Table.Most.Keys },
			"token-bucket table, any size ≤ 40 B a key", notMet, met,
		},
		{
			"one size that doubles while it grows", func(r *results) { r.Memory[0].Fillings[2] = sampleFilling(5_000_000, 28, 2) },
			"peak RSS while growing, any size ≤ 1.5 × RSS afterwards", met, notMet,
		},
		{
			"a larger table of 100 M", func(r *results) { r.Huge.Fillings["headgate"] = sampleFilling(100_000_000, 33, 1) },
			"100 M keys, peak RSS ≤ 3.0 GiB", met, notMet,
		},
		{
			"a dearer collection", func(r *results) { r.GC[1].CPU = spreadOf([]float64{10.1}) },
			"10 M keys, a full collection ≤ 10 ms CPU", met, notMet,
		},
		{
			"a shorter pause", func(r *results) { r.GC[1].Pause = spreadOf([]float64{0.54}) },
			"10 M keys, longest pause ≤ 0.5 ms over an empty process's", notMet, met,
		},
		{
			"longer steps", func(r *results) { r.Growth[1].Runs[1].LongSteps = 90 },
			"growth to 10 M keys, steps of rehashing and sweeping over 100 µs no more than decisions of the floor, which has no such steps", met, notMet,
		},
		{
			"a smoother growth", func(r *results) { r.Growth[1].Runs[0].P9999 = 100_000 },
			"growth to 10 M keys, p99.99 ≤ 200 µs", notMet, met,
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

func setMedian(r *results, table, contender string, ns float64) {
	r.speed(table).row(contender).Spread.Median = ns
}

func TestBarsOfNothingAreNotMeasured(t *testing.T) {
	full := coreBars(sampleResults())
	none := coreBars(&results{Sizes: fullSizes(11)})
	if len(full) != len(none) {
		t.Errorf("%d bars without numbers, %d with", len(none), len(full))
	}
	for _, b := range none {
		if b.Verdict != notMeasured || b.Measured != "" {
			t.Errorf("bar %q is %q, %q, want not measured", b.What, b.Verdict, b.Measured)
		}
	}
}

func TestGrowersAreTheFastestPeers(t *testing.T) {
	r := sampleResults()
	if got, want := growers(r), []string{"headgate", "quick", "slow", "floor", "loop"}; !slices.Equal(got, want) {
		t.Errorf("growers = %v, want %v", got, want)
	}
	for _, name := range growers(&results{}) {
		if _, err := entryNamed(name); err != nil {
			t.Error(err)
		}
	}
}
