package main

import (
	"fmt"
	"strings"
)

func reportMemory(b *strings.Builder, r *results) {
	if len(r.Memory) == 0 {
		return
	}
	b.WriteString("\n### Memory\n\nBytes a key, heap in use / RSS, over the same process without keys; after a collection, with free memory\n" +
		"returned. Keys that a limiter keeps are its own. The last column is the highest RSS on the way, against RSS afterwards.\n\n| limiter |")
	for _, keys := range r.Sizes.Memory {
		fmt.Fprintf(b, " %s |", humanCount(keys))
	}
	b.WriteString(" peak |\n|---|" + strings.Repeat("--:|", len(r.Sizes.Memory)+1) + "\n")
	for _, row := range r.Memory {
		fmt.Fprintf(b, "| %s |", row.Title)
		worst := 0.0
		for _, f := range row.Fillings {
			fmt.Fprintf(b, " %.1f / %.1f |", f.perKey(f.After.Heap-f.Before.Heap), f.perKey(f.After.RSS-f.Before.RSS))
			worst = max(worst, f.overshoot())
		}
		fmt.Fprintf(b, " %.2f × |\n", worst)
	}
}

// perKey returns bytes a key.
func (f filling) perKey(bytes int64) float64 { return float64(bytes) / float64(max(f.Keys, 1)) }

func reportTable(b *strings.Builder, r *results) {
	if r.Table == nil {
		return
	}
	b.WriteString("\n#### headgate's table while it grows\n\nBy its own count, token buckets.\n\n| keys | MiB | bytes a key |\n|--:|--:|--:|\n")
	line := func(name string, p tablePoint) {
		fmt.Fprintf(b, "| %s | %.1f | %.1f |\n", name, mib(p.Bytes), p.perKey())
	}
	for _, p := range r.Table.At {
		line(humanCount(int(p.Keys)), p)
	}
	line("most: "+grouped(fmt.Sprint(r.Table.Most.Keys)), r.Table.Most)
	line("least: "+grouped(fmt.Sprint(r.Table.Best.Keys)), r.Table.Best)
}

func reportHuge(b *strings.Builder, r *results) {
	h := r.Huge
	if h == nil {
		return
	}
	fmt.Fprintf(b, "\n### %s keys\n\nThe floor's table has its final size from the beginning. Afterwards headgate knew %s keys.\n\n"+
		"| limiter | peak RSS | RSS | bytes a key, peak | filled in |\n|---|--:|--:|--:|--:|\n", humanCount(h.Keys), grouped(fmt.Sprint(h.Live)))
	for _, name := range []string{"headgate", "floor"} {
		f, ok := h.Fillings[name]
		if !ok {
			continue
		}
		fmt.Fprintf(b, "| %s | %.2f GiB | %.2f GiB | %.1f | %.1f s |\n", name, gib(f.After.Peak), gib(f.After.RSS), f.perKey(f.After.Peak), f.Seconds)
	}
	for i := range h.Speed {
		reportSpeed(b, &h.Speed[i])
	}
}

func reportGC(b *strings.Builder, r *results) {
	if len(r.GC) == 0 {
		return
	}
	b.WriteString("\n### Garbage collection\n\nA full collection in a process that holds so many keys. CPU is what the system charges\n" +
		"the process meanwhile; a pause is all stops of the world of one cycle.\n\n" +
		"| limiter | keys | CPU, median | CPU, quartiles | pause, median | pause, longest |\n|---|--:|--:|--:|--:|--:|\n")
	for _, row := range r.GC {
		fmt.Fprintf(b, "| %s | %s | %.2f ms | %.2f–%.2f ms | %.3f ms | %.3f ms |\n", row.Title, humanCount(row.Keys),
			row.CPU.Median, row.CPU.Q1, row.CPU.Q3, row.Pause.Median, row.Pause.Max)
	}
}

func reportGrowth(b *strings.Builder, r *results) {
	if len(r.Growth) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### Growth from nothing to %s keys\n\nHow long every single first decision on a fresh key took, the clock included; medians of %d runs, and\n"+
		"the longest of all. \"The loop alone\" is the clock and what the machine itself holds up in the time that headgate took; the\n"+
		"floor's table has its full size from the start and never moves.\n\n"+
		"| limiter | in all | mean | p50 | p99 | p99.9 | p99.99 | longest | > 100 µs |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
		humanCount(r.Sizes.Grown), r.Sizes.GrowthRounds)
	for _, row := range r.Growth {
		var longest int64
		for _, run := range row.Runs {
			longest = max(longest, run.Max)
		}
		cell := func(of func(growth) int64) string { return humanDuration(row.median(of)) }
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s | %.0f |\n", row.Title,
			cell(func(g growth) int64 { return int64(g.Seconds * 1e9) }),
			cell(func(g growth) int64 { return int64(g.Mean) }),
			cell(func(g growth) int64 { return g.P50 }),
			cell(func(g growth) int64 { return g.P99 }),
			cell(func(g growth) int64 { return g.P999 }),
			cell(func(g growth) int64 { return g.P9999 }),
			humanDuration(float64(longest)),
			row.median(func(g growth) int64 { return g.Above100us }))
	}
}
