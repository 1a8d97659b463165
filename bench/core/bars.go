package core

import (
	"fmt"

	"github.com/headgate/headgate/bench/harness"
)

// Bars compares the results of the core with its bars.
func Bars(r *harness.Results) []harness.Bar {
	var bars []harness.Bar
	bars = append(bars, speedBars(r)...)
	bars = append(bars, throughputBar(r))
	bars = append(bars, memoryBars(r)...)
	bars = append(bars, hugeBars(r)...)
	bars = append(bars, gcBars(r)...)
	return append(bars, growthBars(r)...)
}

func speedBars(r *harness.Results) []harness.Bar {
	live := harness.HumanCount(r.Sizes.Live) + " keys, "
	one, two := r.SpeedNamed("uniform-1"), r.SpeedNamed("uniform-2")
	return []harness.Bar{
		harness.FasterThanPeers(one, live+"uniform, 1 goroutine", 2),
		harness.NearFloor(one, live+"uniform, 1 goroutine", 1.3),
		harness.AllocatesNothing(one, live+"uniform, 1 goroutine"),
		harness.FasterThanPeers(two, live+"uniform, 2 goroutines", 2),
		harness.FasterThanPeers(r.SpeedNamed("zipf-2"), live+"Zipf, 2 goroutines", 2),
		scales(one, two, live+"uniform, 2 goroutines against 1", 1.7),
		harness.FasterThanPeers(r.SpeedNamed("hot-allowed-many"), "one hot key, admitted, many goroutines", 1),
		harness.FasterThanPeers(r.SpeedNamed("hot-denied-many"), "one hot key, denied, many goroutines", 1),
	}
}

func scales(one, two *harness.SpeedTable, what string, times float64) harness.Bar {
	want := fmt.Sprintf("≥ %g × the rate", times)
	a, b := one.Row("headgate"), two.Row("headgate")
	if a == nil || b == nil {
		return harness.UnmeasuredBar(what, want)
	}
	ratio := a.Spread.Median / b.Spread.Median
	measured := fmt.Sprintf("%.2f ×", ratio)
	if fa, fb := one.Row("floor"), two.Row("floor"); fa != nil && fb != nil {
		measured += fmt.Sprintf(" (the floor: %.2f ×)", fa.Spread.Median/fb.Spread.Median)
	}
	return harness.JudgedBar(what, want, measured, ratio >= times)
}

func throughputBar(r *harness.Results) harness.Bar {
	const million, share = 10, 0.75
	what := harness.HumanCount(r.Sizes.Live) + " keys, Zipf, 2 goroutines"
	want := fmt.Sprintf("≥ %d M decisions/s or ≥ %g × the floor's", million, share)
	t := r.SpeedNamed("zipf-2")
	us, least := t.Row("headgate"), t.Row("floor")
	if us == nil || least == nil {
		return harness.UnmeasuredBar(what, want)
	}
	rate, ratio := 1e3/us.Spread.Median, least.Spread.Median/us.Spread.Median
	return harness.JudgedBar(what, want, fmt.Sprintf("%.1f M/s, %.2f ×", rate, ratio), rate >= million || ratio >= share)
}

func memoryBars(r *harness.Results) []harness.Bar {
	const most, best, growing = 40, 28, 1.5
	whatMost, wantMost := "token-bucket table, any size", fmt.Sprintf("≤ %d B a key", most)
	whatBest, wantBest := "token-bucket table, at its best", fmt.Sprintf("≤ %d B a key", best)
	bars := []harness.Bar{harness.UnmeasuredBar(whatMost, wantMost), harness.UnmeasuredBar(whatBest, wantBest)}
	if g := r.Table; g != nil {
		bars[0] = harness.JudgedBar(whatMost, wantMost, fmt.Sprintf("%.1f B at %s keys", g.Most.PerKey(),
			harness.Grouped(fmt.Sprint(g.Most.Keys))), g.Most.PerKey() <= most)
		bars[1] = harness.JudgedBar(whatBest, wantBest, fmt.Sprintf("%.1f B at %s keys", g.Best.PerKey(),
			harness.Grouped(fmt.Sprint(g.Best.Keys))), g.Best.PerKey() <= best)
	}
	what, want := "peak RSS while growing, any size", fmt.Sprintf("≤ %g × RSS afterwards", growing)
	for _, row := range r.Memory {
		if row.Contender != "headgate" {
			continue
		}
		worst := row.Fillings[0]
		for _, f := range row.Fillings {
			if f.Overshoot() > worst.Overshoot() {
				worst = f
			}
		}
		return append(bars, harness.JudgedBar(what, want, fmt.Sprintf("%.2f × at %s keys", worst.Overshoot(),
			harness.HumanCount(worst.Keys)), worst.Overshoot() <= growing))
	}
	return append(bars, harness.UnmeasuredBar(what, want))
}

func hugeBars(r *harness.Results) []harness.Bar {
	const most, reach, share = 3.0, 2.2, 0.9
	keys := harness.HumanCount(r.Sizes.Huge) + " keys"
	wantMost, wantReach := fmt.Sprintf("≤ %.1f GiB", most), fmt.Sprintf("≤ %.1f GiB (to reach for)", reach)
	wantSpeed := fmt.Sprintf("≥ %g × the floor's rate", share)
	if r.Huge == nil {
		return []harness.Bar{
			harness.UnmeasuredBar(keys+", peak RSS", wantMost), harness.UnmeasuredBar(keys+", peak RSS", wantReach),
			harness.UnmeasuredBar(keys+", 1 goroutine", wantSpeed), harness.UnmeasuredBar(keys+", 2 goroutines", wantSpeed),
		}
	}
	peak := harness.Gib(r.Huge.Fillings["headgate"].After.Peak)
	measured := fmt.Sprintf("%.2f GiB", peak)
	bars := []harness.Bar{
		harness.JudgedBar(keys+", peak RSS", wantMost, measured, peak <= most),
		harness.JudgedBar(keys+", peak RSS", wantReach, measured, peak <= reach),
	}
	for _, test := range []struct{ id, what string }{
		{"huge-1", keys + ", 1 goroutine"},
		{"huge-2", keys + ", 2 goroutines"},
	} {
		t := harness.TableIn(r.Huge.Speed, test.id)
		us, least := t.Row("headgate"), t.Row("floor")
		if us == nil || least == nil {
			bars = append(bars, harness.UnmeasuredBar(test.what, wantSpeed))
			continue
		}
		ratio := least.Spread.Median / us.Spread.Median
		measured := fmt.Sprintf("%.2f × (%s against %s ns", ratio, harness.HumanNs(us.Spread.Median),
			harness.HumanNs(least.Spread.Median))
		if large := t.Row("floor-large"); large != nil {
			measured += fmt.Sprintf("; of the floor's in large pages %.2f ×", large.Spread.Median/us.Spread.Median)
		}
		bars = append(bars, harness.JudgedBar(test.what, wantSpeed, measured+")", ratio >= share))
	}
	return bars
}

func gcBars(r *harness.Results) []harness.Bar {
	const cpu, pause = 10.0, 0.5 // ms
	what := harness.HumanCount(r.Sizes.Collected) + " keys, "
	whatCPU, wantCPU := what+"a full collection", fmt.Sprintf("≤ %g ms CPU", cpu)
	whatPause, wantPause := what+"longest pause", fmt.Sprintf("≤ %g ms over an empty process's", pause)
	var us, empty *harness.GcRow
	for i := range r.GC {
		switch row := &r.GC[i]; {
		case row.Contender == "headgate":
			us = row
		case row.Role == harness.Loop:
			empty = row
		}
	}
	if us == nil || empty == nil {
		return []harness.Bar{harness.UnmeasuredBar(whatCPU, wantCPU), harness.UnmeasuredBar(whatPause, wantPause)}
	}
	return []harness.Bar{
		harness.JudgedBar(whatCPU, wantCPU, fmt.Sprintf("%.2f ms", us.CPU.Median), us.CPU.Median <= cpu),
		harness.JudgedBar(whatPause, wantPause, fmt.Sprintf("%.3f against %.3f ms", us.Pause.Max, empty.Pause.Max),
			us.Pause.Max-empty.Pause.Max <= pause),
	}
}

func growthBars(r *harness.Results) []harness.Bar {
	what := "growth to " + harness.HumanCount(r.Sizes.Grown) + " keys, "
	var bars []harness.Bar
	for _, test := range []struct {
		what string
		want float64 // ns
		of   func(harness.Growth) int64
	}{
		{what + "p99.9", 20e3, func(g harness.Growth) int64 { return g.P999 }},
		{what + "p99.99", 200e3, func(g harness.Growth) int64 { return g.P9999 }},
	} {
		want := fmt.Sprintf("≤ %g µs", test.want/1e3)
		b := harness.UnmeasuredBar(test.what, want)
		for _, row := range r.Growth {
			if row.Contender == "headgate" {
				ns := row.Median(test.of)
				b = harness.JudgedBar(test.what, want, harness.HumanDuration(ns), ns <= test.want)
			}
		}
		bars = append(bars, b)
	}
	return append(bars, stepBar(r, what+"steps of rehashing and sweeping over 100 µs"))
}

// stepBar is the bar that no single step of table growth takes more than 100 µs. The machine itself causes longer
// interruptions, most often for processes that use much memory, and the clock cannot tell their cause. So the steps are
// compared with the decisions of the floor, which has no steps and runs for a shorter time.
func stepBar(r *harness.Results, what string) harness.Bar {
	const want = "no more than decisions of the floor, which has no such steps"
	var us, still *harness.GrowthRow
	for i := range r.Growth {
		switch row := &r.Growth[i]; {
		case row.Contender == "headgate":
			us = row
		case row.Role == harness.Floor:
			still = row
		}
	}
	if us == nil || still == nil {
		return harness.UnmeasuredBar(what, want)
	}
	long := us.Median(func(g harness.Growth) int64 { return g.LongSteps })
	all := us.Median(func(g harness.Growth) int64 { return g.Steps })
	breaks := still.Median(func(g harness.Growth) int64 { return g.Above100us })
	return harness.JudgedBar(what, want, fmt.Sprintf("%.0f of %s against %.0f", long,
		harness.Grouped(fmt.Sprintf("%.0f", all)), breaks), long <= breaks)
}
