package main

import "fmt"

// A bar is a promise about the results, and whether this run kept it.
type bar struct {
	What, Want, Measured, Verdict string
}

const (
	met         = "met"
	notMet      = "**not met**"
	notMeasured = "not measured"
)

// coreBars holds the results of the core against its bars.
func coreBars(r *results) []bar {
	var bars []bar
	bars = append(bars, speedBars(r)...)
	bars = append(bars, throughputBar(r))
	bars = append(bars, memoryBars(r)...)
	bars = append(bars, hugeBars(r)...)
	bars = append(bars, gcBars(r)...)
	return append(bars, growthBars(r)...)
}

// unmeasured returns a bar that this run says nothing about.
func unmeasured(what, want string) bar { return bar{what, want, "", notMeasured} }

func judged(what, want, measured string, ok bool) bar {
	if ok {
		return bar{what, want, measured, met}
	}
	return bar{what, want, measured, notMet}
}

func speedBars(r *results) []bar {
	live := humanCount(r.Sizes.Live) + " keys, "
	one, two := r.speed("uniform-1"), r.speed("uniform-2")
	return []bar{
		fasterThanPeers(one, live+"uniform, 1 goroutine", 2),
		nearFloor(one, live+"uniform, 1 goroutine", 1.3),
		allocatesNothing(one, live+"uniform, 1 goroutine"),
		fasterThanPeers(two, live+"uniform, 2 goroutines", 2),
		fasterThanPeers(r.speed("zipf-2"), live+"Zipf, 2 goroutines", 2),
		scales(one, two, live+"uniform, 2 goroutines against 1", 1.7),
		fasterThanPeers(r.speed("hot-allowed-many"), "one hot key, admitted, many goroutines", 1),
		fasterThanPeers(r.speed("hot-denied-many"), "one hot key, denied, many goroutines", 1),
	}
}

// redisBars holds the results in Redis against their bars.
func redisBars(r *results) []bar {
	return []bar{
		fasterThanPeers(r.speed("redis-64"), "64 goroutines", 1.6),
		fasterThanPeers(r.speed("redis-256"), "256 goroutines", 1.6),
		nearFloor(r.speed("redis-64"), "64 goroutines", 1/0.85),
		nearFloor(r.speed("redis-256"), "256 goroutines", 1/0.85),
		halfLoadBar(r),
	}
}

// fasterThanPeers is the bar of being so many times as fast as the fastest peer.
func fasterThanPeers(t *speedTable, what string, times float64) bar {
	want := fmt.Sprintf("≥ %g × the fastest peer", times)
	us, them := t.first(ours), t.fastest(peer)
	if us == nil || them == nil {
		return unmeasured(what, want)
	}
	ratio := them.Spread.Median / us.Spread.Median
	return judged(what, want, fmt.Sprintf("%.2f × (%s ns; %s: %s ns)",
		ratio, humanNs(us.Spread.Median), them.Contender, humanNs(them.Spread.Median)), ratio >= times)
}

func nearFloor(t *speedTable, what string, times float64) bar {
	want := fmt.Sprintf("≤ %.3g × the floor's time", times)
	us, least := t.first(ours), t.first(floor)
	if us == nil || least == nil {
		return unmeasured(what, want)
	}
	ratio := us.Spread.Median / least.Spread.Median
	return judged(what, want, fmt.Sprintf("%.2f × (%s against %s ns)",
		ratio, humanNs(us.Spread.Median), humanNs(least.Spread.Median)), ratio <= times)
}

func allocatesNothing(t *speedTable, what string) bar {
	const want = "0 allocations"
	us := t.row("headgate")
	if us == nil {
		return unmeasured(what, want)
	}
	return judged(what, want, humanAllocs(us.Allocs), us.Allocs < noAllocs)
}

func scales(one, two *speedTable, what string, times float64) bar {
	want := fmt.Sprintf("≥ %g × the rate", times)
	a, b := one.row("headgate"), two.row("headgate")
	if a == nil || b == nil {
		return unmeasured(what, want)
	}
	ratio := a.Spread.Median / b.Spread.Median
	measured := fmt.Sprintf("%.2f ×", ratio)
	if fa, fb := one.row("floor"), two.row("floor"); fa != nil && fb != nil {
		measured += fmt.Sprintf(" (the floor: %.2f ×)", fa.Spread.Median/fb.Spread.Median)
	}
	return judged(what, want, measured, ratio >= times)
}

func throughputBar(r *results) bar {
	const million, share = 10, 0.75
	what := humanCount(r.Sizes.Live) + " keys, Zipf, 2 goroutines"
	want := fmt.Sprintf("≥ %d M decisions/s or ≥ %g × the floor's", million, share)
	t := r.speed("zipf-2")
	us, least := t.row("headgate"), t.row("floor")
	if us == nil || least == nil {
		return unmeasured(what, want)
	}
	rate, ratio := 1e3/us.Spread.Median, least.Spread.Median/us.Spread.Median
	return judged(what, want, fmt.Sprintf("%.1f M/s, %.2f ×", rate, ratio), rate >= million || ratio >= share)
}

func memoryBars(r *results) []bar {
	const most, best, growing = 40, 28, 1.5
	whatMost, wantMost := "token-bucket table, any size", fmt.Sprintf("≤ %d B a key", most)
	whatBest, wantBest := "token-bucket table, at its best", fmt.Sprintf("≤ %d B a key", best)
	bars := []bar{unmeasured(whatMost, wantMost), unmeasured(whatBest, wantBest)}
	if g := r.Table; g != nil {
		bars[0] = judged(whatMost, wantMost, fmt.Sprintf("%.1f B at %s keys", g.Most.perKey(), grouped(fmt.Sprint(g.Most.Keys))), g.Most.perKey() <= most)
		bars[1] = judged(whatBest, wantBest, fmt.Sprintf("%.1f B at %s keys", g.Best.perKey(), grouped(fmt.Sprint(g.Best.Keys))), g.Best.perKey() <= best)
	}
	what, want := "peak RSS while growing, any size", fmt.Sprintf("≤ %g × RSS afterwards", growing)
	for _, row := range r.Memory {
		if row.Contender != "headgate" {
			continue
		}
		worst := row.Fillings[0]
		for _, f := range row.Fillings {
			if f.overshoot() > worst.overshoot() {
				worst = f
			}
		}
		return append(bars, judged(what, want, fmt.Sprintf("%.2f × at %s keys", worst.overshoot(), humanCount(worst.Keys)), worst.overshoot() <= growing))
	}
	return append(bars, unmeasured(what, want))
}

// overshoot is how many times what a contender takes once it is full its process took on the way there.
func (f filling) overshoot() float64 {
	return float64(f.After.Peak-f.Before.RSS) / float64(max(f.After.RSS-f.Before.RSS, 1))
}

func hugeBars(r *results) []bar {
	const most, reach, share = 3.0, 2.2, 0.9
	keys := humanCount(r.Sizes.Huge) + " keys"
	wantMost, wantReach := fmt.Sprintf("≤ %.1f GiB", most), fmt.Sprintf("≤ %.1f GiB (to reach for)", reach)
	wantSpeed := fmt.Sprintf("≥ %g × the floor's rate", share)
	if r.Huge == nil {
		return []bar{
			unmeasured(keys+", peak RSS", wantMost), unmeasured(keys+", peak RSS", wantReach),
			unmeasured(keys+", 1 goroutine", wantSpeed), unmeasured(keys+", 2 goroutines", wantSpeed),
		}
	}
	peak := gib(r.Huge.Fillings["headgate"].After.Peak)
	measured := fmt.Sprintf("%.2f GiB", peak)
	bars := []bar{
		judged(keys+", peak RSS", wantMost, measured, peak <= most),
		judged(keys+", peak RSS", wantReach, measured, peak <= reach),
	}
	for _, test := range []struct{ id, what string }{{"huge-1", keys + ", 1 goroutine"}, {"huge-2", keys + ", 2 goroutines"}} {
		t := tableIn(r.Huge.Speed, test.id)
		us, least := t.row("headgate"), t.row("floor")
		if us == nil || least == nil {
			bars = append(bars, unmeasured(test.what, wantSpeed))
			continue
		}
		ratio := least.Spread.Median / us.Spread.Median
		measured := fmt.Sprintf("%.2f × (%s against %s ns", ratio, humanNs(us.Spread.Median), humanNs(least.Spread.Median))
		if large := t.row("floor-large"); large != nil {
			measured += fmt.Sprintf("; of the floor's in large pages %.2f ×", large.Spread.Median/us.Spread.Median)
		}
		bars = append(bars, judged(test.what, wantSpeed, measured+")", ratio >= share))
	}
	return bars
}

func gcBars(r *results) []bar {
	const cpu, pause = 10.0, 0.5 // ms
	what := humanCount(r.Sizes.Collected) + " keys, "
	whatCPU, wantCPU := what+"a full collection", fmt.Sprintf("≤ %g ms CPU", cpu)
	whatPause, wantPause := what+"longest pause", fmt.Sprintf("≤ %g ms over an empty process's", pause)
	var us, empty *gcRow
	for i := range r.GC {
		switch row := &r.GC[i]; {
		case row.Contender == "headgate":
			us = row
		case row.Role == loop:
			empty = row
		}
	}
	if us == nil || empty == nil {
		return []bar{unmeasured(whatCPU, wantCPU), unmeasured(whatPause, wantPause)}
	}
	return []bar{
		judged(whatCPU, wantCPU, fmt.Sprintf("%.2f ms", us.CPU.Median), us.CPU.Median <= cpu),
		judged(whatPause, wantPause, fmt.Sprintf("%.3f against %.3f ms", us.Pause.Max, empty.Pause.Max), us.Pause.Max-empty.Pause.Max <= pause),
	}
}

func growthBars(r *results) []bar {
	what := "growth to " + humanCount(r.Sizes.Grown) + " keys, "
	var bars []bar
	for _, test := range []struct {
		what string
		want float64 // ns
		of   func(growth) int64
	}{
		{what + "p99.9", 20e3, func(g growth) int64 { return g.P999 }},
		{what + "p99.99", 200e3, func(g growth) int64 { return g.P9999 }},
	} {
		want := fmt.Sprintf("≤ %g µs", test.want/1e3)
		b := unmeasured(test.what, want)
		for _, row := range r.Growth {
			if row.Contender == "headgate" {
				ns := row.median(test.of)
				b = judged(test.what, want, humanDuration(ns), ns <= test.want)
			}
		}
		bars = append(bars, b)
	}
	return append(bars, stepBar(r, what+"steps of rehashing and sweeping over 100 µs"))
}

// stepBar is the bar that no single step of growing takes over 100 µs. The machine takes longer breaks than that by itself,
// most of all from who works on much memory, and the clock cannot tell whose a break is. So the steps are held against
// the decisions of the floor, which has no steps and is done sooner.
func stepBar(r *results, what string) bar {
	const want = "no more than decisions of the floor, which has no such steps"
	var us, still *growthRow
	for i := range r.Growth {
		switch row := &r.Growth[i]; {
		case row.Contender == "headgate":
			us = row
		case row.Role == floor:
			still = row
		}
	}
	if us == nil || still == nil {
		return unmeasured(what, want)
	}
	long := us.median(func(g growth) int64 { return g.LongSteps })
	all := us.median(func(g growth) int64 { return g.Steps })
	breaks := still.median(func(g growth) int64 { return g.Above100us })
	return judged(what, want, fmt.Sprintf("%.0f of %s against %.0f", long, grouped(fmt.Sprintf("%.0f", all)), breaks), long <= breaks)
}
