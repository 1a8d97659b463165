package core

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/bench/harness"
)

func reportMemory(b *strings.Builder, r *harness.Results) {
	if len(r.Memory) == 0 {
		return
	}
	b.WriteString("\n### Memory\n\nBytes a key, heap in use / RSS, over the same process without keys; after a collection, with free memory\n" +
		"returned. Keys that a limiter keeps are its own. The last column is the highest RSS on the way, against RSS afterwards.\n\n| limiter |")
	for _, keys := range r.Sizes.Memory {
		fmt.Fprintf(b, " %s |", harness.HumanCount(keys))
	}
	b.WriteString(" peak |\n|---|" + strings.Repeat("--:|", len(r.Sizes.Memory)+1) + "\n")
	for _, row := range r.Memory {
		fmt.Fprintf(b, "| %s |", row.Title)
		worst := 0.0
		for _, f := range row.Fillings {
			fmt.Fprintf(b, " %.1f / %.1f |", f.PerKey(f.After.Heap-f.Before.Heap), f.PerKey(f.After.RSS-f.Before.RSS))
			worst = max(worst, f.Overshoot())
		}
		fmt.Fprintf(b, " %.2f × |\n", worst)
	}
}

func reportTable(b *strings.Builder, r *harness.Results) {
	if r.Table == nil {
		return
	}
	b.WriteString("\n#### headgate's table while it grows\n\nBy its own count, token buckets.\n\n| keys | MiB | bytes a key |\n|--:|--:|--:|\n")
	line := func(name string, p harness.TablePoint) {
		fmt.Fprintf(b, "| %s | %.1f | %.1f |\n", name, harness.Mib(p.Bytes), p.PerKey())
	}
	for _, p := range r.Table.At {
		line(harness.HumanCount(int(p.Keys)), p)
	}
	line("most: "+harness.Grouped(fmt.Sprint(r.Table.Most.Keys)), r.Table.Most)
	line("least: "+harness.Grouped(fmt.Sprint(r.Table.Best.Keys)), r.Table.Best)
}

func reportHuge(b *strings.Builder, r *harness.Results) {
	h := r.Huge
	if h == nil {
		return
	}
	fmt.Fprintf(b, "\n### %s keys\n\nThe floor's table has its final size from the beginning. Afterwards headgate knew %s keys.\n\n"+
		"| limiter | peak RSS | RSS | bytes a key, peak | filled in |\n|---|--:|--:|--:|--:|\n", harness.HumanCount(
		h.Keys), harness.Grouped(fmt.Sprint(h.Live)))
	for _, name := range []string{"headgate", "floor"} {
		f, ok := h.Fillings[name]
		if !ok {
			continue
		}
		fmt.Fprintf(b, "| %s | %.2f GiB | %.2f GiB | %.1f | %.1f s |\n", name, harness.Gib(f.After.Peak),
			harness.Gib(f.After.RSS), f.PerKey(f.After.Peak), f.Seconds)
	}
	for i := range h.Speed {
		harness.ReportSpeed(b, &h.Speed[i])
	}
}

func reportGC(b *strings.Builder, r *harness.Results) {
	if len(r.GC) == 0 {
		return
	}
	b.WriteString("\n### Garbage collection\n\nA full collection in a process that holds so many keys. CPU is what the system charges\n" +
		"the process meanwhile; a pause is all stops of the world of one cycle.\n\n" +
		"| limiter | keys | CPU, median | CPU, quartiles | pause, median | pause, longest |\n|---|--:|--:|--:|--:|--:|\n")
	for _, row := range r.GC {
		fmt.Fprintf(b, "| %s | %s | %.2f ms | %.2f–%.2f ms | %.3f ms | %.3f ms |\n", row.Title, harness.HumanCount(row.Keys),
			row.CPU.Median, row.CPU.Q1, row.CPU.Q3, row.Pause.Median, row.Pause.Max)
	}
}

func reportGrowth(b *strings.Builder, r *harness.Results) {
	if len(r.Growth) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### Growth from nothing to %s keys\n\nHow long every single first decision on a fresh key took, the clock included; medians of %d runs, and\n"+
		"the longest of all. \"The loop alone\" is the clock and what the machine itself holds up in the time that headgate took; the\n"+
		"floor's table has its full size from the start and never moves.\n\n"+
		"| limiter | in all | mean | p50 | p99 | p99.9 | p99.99 | longest | > 100 µs |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
		harness.HumanCount(r.Sizes.Grown), r.Sizes.GrowthRounds)
	for _, row := range r.Growth {
		var longest int64
		for _, run := range row.Runs {
			longest = max(longest, run.Max)
		}
		cell := func(of func(harness.Growth) int64) string { return harness.HumanDuration(row.Median(of)) }
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s | %.0f |\n", row.Title,
			cell(func(g harness.Growth) int64 { return int64(g.Seconds * 1e9) }),
			cell(func(g harness.Growth) int64 { return int64(g.Mean) }),
			cell(func(g harness.Growth) int64 { return g.P50 }),
			cell(func(g harness.Growth) int64 { return g.P99 }),
			cell(func(g harness.Growth) int64 { return g.P999 }),
			cell(func(g harness.Growth) int64 { return g.P9999 }),
			harness.HumanDuration(float64(longest)),
			row.Median(func(g harness.Growth) int64 { return g.Above100us }))
	}
}

// reportCore writes the tables of limiters in one process, except those of their speed.
func reportCore(b *strings.Builder, r *harness.Results) {
	reportMemory(b, r)
	reportTable(b, r)
	reportHuge(b, r)
	reportGC(b, r)
	reportGrowth(b, r)
}
