package harness

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ReportOf returns the results of a part in Markdown.
func ReportOf(p Part, r *Results) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n", p.Title)
	reportHead(&b, r)
	b.WriteString("\n### Method\n\n")
	p.Method(&b, r)
	if len(r.Speed) > 0 {
		b.WriteString("\n### Speed\n")
		for i := range r.Speed {
			ReportSpeed(&b, &r.Speed[i])
		}
		reportThroughput(&b, r)
	}
	p.Report(&b, r)
	reportBars(&b, r)
	return b.String()
}

func reportHead(b *strings.Builder, r *Results) {
	if r.Quick {
		b.WriteString("\n**A quick run at toy sizes: it shows that everything runs, and the numbers mean nothing.**\n")
	}
	if r.Only != "" {
		fmt.Fprintf(b, "\nOnly the scenarios that match `%s` were run.\n", r.Only)
	}
	for _, f := range r.Failures {
		fmt.Fprintf(b, "\n**Failed:** %s\n", f)
	}
	m := r.Machine
	b.WriteString("\n| | |\n|---|---|\n")
	took := r.Took.String()
	if r.Pieces > 1 {
		took += fmt.Sprintf(" in %d pieces", r.Pieces)
	}
	fmt.Fprintf(b, "| date | %s, took %s |\n", r.Started.UTC().Format("2006-01-02 15:04 UTC"), took)
	fmt.Fprintf(b, "| processor | %s, %d cores |\n", m.CPU, m.Cores)
	fmt.Fprintf(b, "| memory | %.1f GiB, transparent huge pages: %s |\n", Gib(m.Memory), m.HugePages)
	fmt.Fprintf(b, "| kernel | %s |\n| Go | %s |\n", m.Kernel, m.Go)
	fmt.Fprintf(b, "| quiet? | load %.2f at the start; %.2f %% of the time went to other virtual machines |\n", m.Load,
		100*m.Steal)
	if len(r.Versions) == 0 {
		return
	}
	b.WriteString("\n| peer | version |\n|---|---|\n")
	for _, v := range r.Versions {
		fmt.Fprintf(b, "| %s | %s |\n", v.Module, v.Version)
	}
}

// BySpeed compares rows by their median time.
func BySpeed(x, y SpeedRow) int { return cmp.Compare(x.Spread.Median, y.Spread.Median) }

// ReportSpeed writes a table of speed.
func ReportSpeed(b *strings.Builder, t *SpeedTable) {
	fmt.Fprintf(b, "\n#### %s\n\n", t.Title)
	b.WriteString("| limiter | ns/decision | quartiles | speed, fastest peer = 1 | time, floor = 1 | allocs | admitted |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|--:|\n")
	them, least := t.fastest(Peer), t.fastest(Floor)
	for _, row := range slices.SortedFunc(slices.Values(t.Rows), BySpeed) {
		ns := row.Spread.Median
		against, over := "", ""
		if them != nil && row.Role != Loop {
			against = fmt.Sprintf("%.2f", them.Spread.Median/ns)
		}
		if least != nil && row.Role != Loop {
			over = fmt.Sprintf("%.2f", ns/least.Spread.Median)
		}
		admitted := fmt.Sprintf("%.1f %%", 100*row.Admitted)
		if row.Role == Loop {
			admitted = ""
		}
		fmt.Fprintf(b, "| %s | %s | %s–%s | %s | %s | %s | %s |\n", row.Title, HumanNs(ns),
			HumanNs(row.Spread.Q1), HumanNs(row.Spread.Q3), against, over, HumanAllocs(row.Allocs), admitted)
	}
}

// reportThroughput repeats the results of the Zipf scenario as rates.
func reportThroughput(b *strings.Builder, r *Results) {
	t := r.SpeedNamed("zipf-2")
	us, least := t.Row("headgate"), t.fastest(Floor)
	if us == nil || least == nil {
		return
	}
	fmt.Fprintf(b, "\n#### Throughput: %s\n\n| limiter | decisions/s | of the floor's |\n|---|--:|--:|\n", t.Title)
	rows := []*SpeedRow{us, least}
	if them := t.fastest(Peer); them != nil {
		rows = append(rows, them)
	}
	for _, row := range rows {
		fmt.Fprintf(b, "| %s | %.1f M | %.2f |\n", row.Title, 1e3/row.Spread.Median, least.Spread.Median/row.Spread.Median)
	}
}

func reportBars(b *strings.Builder, r *Results) {
	b.WriteString("\n### Bars\n\n| what | bar | measured | |\n|---|---|---|---|\n")
	for _, bar := range r.Bars {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", bar.What, bar.Want, bar.Measured, bar.Verdict)
	}
}
