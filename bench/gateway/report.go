package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/bench/harness"
)

func reportLoad(b *strings.Builder, r *harness.Results) {
	if len(r.Load) == 0 {
		return
	}
	b.WriteString("\n### Requests a second\n")
	for i := range r.Load {
		reportLoadTable(b, &r.Load[i])
	}
}

func reportLoadTable(b *strings.Builder, t *harness.LoadTable) {
	fmt.Fprintf(b, "\n#### %s, %d connections\n\n", t.Title, t.Connections)
	b.WriteString("| server | requests/s | quartiles | headgate against it | quartiles | CPU a request, µs | it ran | the load's core busy | p99 |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	us := t.Row("headgate")
	if us == nil {
		us = t.Row(oneLimitName)
	}
	var held []string
	for _, row := range slices.SortedFunc(slices.Values(t.Rows), byRate) {
		against, quartiles := "", ""
		if us != nil && row.Contender != us.Contender {
			ratio := us.Against(&row)
			against, quartiles = fmt.Sprintf("%.2f ×", ratio.Median), fmt.Sprintf("%.2f–%.2f", ratio.Q1, ratio.Q3)
		}
		core, busy := fmt.Sprintf("%.1f", row.CPU), fmt.Sprintf("%.0f %%", 100*row.Busy)
		if row.Role == harness.Loop {
			core, busy = "", ""
		} else if !row.Full() {
			held = append(held, row.Title)
		}
		tail := ""
		if row.P99 > 0 {
			tail = harness.HumanDuration(row.P99)
		}
		fmt.Fprintf(b, "| %s | %s | %s–%s | %s | %s | %s | %s | %.0f %% | %s |\n", row.Title, harness.HumanRate(row.Rate.Median),
			harness.HumanRate(row.Rate.Q1), harness.HumanRate(row.Rate.Q3), against, quartiles, core, busy, 100*row.LoadBusy, tail)
	}
	if len(held) > 0 {
		fmt.Fprintf(b, "\nNot held up by its own core, but by the load or by what else ran here: %s. It could do more than the table says.\n", strings.Join(held, "; "))
	}
}

func byRate(x, y harness.LoadRow) int { return cmp.Compare(y.Rate.Median, x.Rate.Median) }

func reportPace(b *strings.Builder, r *harness.Results) {
	t := r.Pace
	if t == nil {
		return
	}
	fmt.Fprintf(b, "\n### Answers at half load\n\n%s requests a second on %d connections, half of the %s that headgate with its rules answered at most.\n\n",
		harness.HumanRate(t.Rate), t.Connections, harness.HumanRate(t.Full))
	reportPaceTable(b, t)
}

func reportSteady(b *strings.Builder, r *harness.Results) {
	t := r.Steady
	if t == nil {
		return
	}
	fmt.Fprintf(b, "\n### Answers at a low rate\n\n%s requests a second on %d connections.\n\n", harness.HumanRate(t.Rate),
		t.Connections)
	b.WriteString("| server | CPU a request, µs |\n|---|--:|\n")
	for i := range t.Rows {
		fmt.Fprintf(b, "| %s | %.1f |\n", t.Rows[i].Title, t.Rows[i].CPUOfARequest())
	}
	b.WriteString("\n")
	reportPaceTable(b, t)
}

func reportNoise(b *strings.Builder, r *harness.Results) {
	t := r.Noise
	if t == nil {
		return
	}
	fmt.Fprintf(b, "\n### Answers beside a flood\n\n%d clients send %s requests a second together, half of what they may. One client more sends %s a second, %d times its limit, or none.\n\n",
		neighbours, harness.HumanRate(t.Rate), harness.HumanRate(floodTimes*neighbourLimit), floodTimes)
	reportPaceTable(b, t)
}

func reportPaceTable(b *strings.Builder, t *harness.PaceTable) {
	if !t.First || !t.Watched {
		b.WriteString("There was no right to real-time priority: what else runs here is in these figures.\n\n")
	}
	if t.Watched {
		b.WriteString("| server, requests that no stall touched | set apart | p50 | p99 | quartiles of p99 | p99.9 |\n|---|--:|--:|--:|--:|--:|\n")
		for i := range t.Rows {
			row := t.Rows[i].Calmly()
			fmt.Fprintf(b, "| %s | %.1f %% | %s |\n", row.Title, 100*t.Rows[i].Touched(),
				harness.Quantiles(row, harness.CalmP50, calmP99, calmP999))
		}
		fmt.Fprintf(b, "\nThere were %d stalls in %s, %s together.\n\n", t.Stalls, harness.HumanDuration(float64(t.Took)),
			harness.HumanDuration(float64(t.Stalled)))
	}
	b.WriteString("| server, all requests | sent late, p99 | p50 | p99 | quartiles of p99 | p99.9 |\n|---|--:|--:|--:|--:|--:|\n")
	for i := range t.Rows {
		row := &t.Rows[i]
		fmt.Fprintf(b, "| %s | %s | %s |\n", row.Title, harness.HumanDuration(row.Spread(late).Median),
			harness.Quantiles(row, harness.P50, harness.P99, harness.P999))
	}
}

// reportGateway writes the tables of proxies.
func reportGateway(b *strings.Builder, r *harness.Results) {
	reportLoad(b, r)
	reportPace(b, r)
	reportSteady(b, r)
	reportNoise(b, r)
}
