package measure

import (
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/internal/terminal"
	"github.com/headgate/headgate/server/loadgen"
	"github.com/headgate/headgate/server/sim/chart"
)

// latencyText formats a latency with about three digits.
func latencyText(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return d.Round(10 * time.Nanosecond).String()
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// secondsPlot draws the number of requests in each second. The last second may be incomplete.
func secondsPlot(perSecond []int64) string {
	counts := make([]int, len(perSecond))
	for i, n := range perSecond {
		counts[i] = int(n)
	}
	return rampPlot(counts)
}

// A loadFigure is a row of the table of figures.
type loadFigure struct {
	name string
	text func(loadgen.Report) string
}

// printLoad prints the figures, with a column for each target.
func (p *program) printLoad(report *loadReport) error {
	header := []string{""}
	figures := []loadFigure{
		{"intended rate", func(r loadgen.Report) string {
			if r.Rate == 0 {
				return maxRateName
			}
			return fmt.Sprintf("%g/s", r.Rate)
		}},
		{"answered", func(r loadgen.Report) string { return fmt.Sprintf("%.0f/s in %.2f s", r.Achieved, r.Seconds) }},
		{"admitted", func(r loadgen.Report) string { return fmt.Sprint(r.Admitted) }},
		{"denied", func(r loadgen.Report) string { return fmt.Sprint(r.Denied) }},
		{"degraded", func(r loadgen.Report) string { return fmt.Sprint(r.Degraded) }},
		{"errors", func(r loadgen.Report) string {
			if r.Errors == 0 {
				return "0"
			}
			return fmt.Sprintf("%d, first: %s", r.Errors, output.Truncate(r.FirstError, 100))
		}},
		{"not sent", func(r loadgen.Report) string { return fmt.Sprint(r.Unsent) }},
	}
	if report.Interrupted {
		figures = append(figures, loadFigure{"interrupted", func(r loadgen.Report) string { return fmt.Sprint(r.Interrupted) }})
	}
	var rows [][]string
	for _, figure := range figures {
		row := []string{figure.name}
		for _, r := range report.Targets {
			row = append(row, figure.text(r))
		}
		rows = append(rows, row)
	}
	for _, r := range report.Targets {
		header = append(header, r.Target)
	}
	if err := p.Show(output.Table, nil, header, rows); err != nil {
		return err
	}
	p.Printf("\n")
	if err := p.Show(output.Table, nil, latencyHeader(report), latencyRows(report)); err != nil {
		return err
	}
	p.Printf("\nAnswered in each second:\n")
	for _, r := range report.Targets {
		p.Printf("  %s  %s\n", strings.TrimRight(secondsPlot(r.PerSecond), " "), r.Target)
	}
	if report.Interrupted {
		p.Printf("\nInterrupted: these are the figures until then.\n")
	}
	return nil
}

// loadChart returns a chart of the percentiles of all targets. The first part of a bar is the time from when a request
// was sent, and the second part is the time that it waited before.
func loadChart(report *loadReport) *chart.BarChart {
	c := &chart.BarChart{
		Title: "Latency in milliseconds", Parts: []string{"from when a request was sent", "from when it was due"},
	}
	for _, r := range report.Targets {
		for i, at := range r.Latency.Percentiles {
			latency, service := at.Micros/1e3, min(r.Service.Percentiles[i].Micros, at.Micros)/1e3
			scheme, _, _ := strings.Cut(r.Target, ":")
			c.Bars = append(c.Bars, chart.Bar{
				Name: fmt.Sprintf("%s, %g %%", scheme, at.Percentile), Parts: []float64{service, latency - service},
				Text: latencyText(r.Latency.At(at.Percentile)),
			})
		}
	}
	return c
}

func latencyHeader(report *loadReport) []string {
	header := []string{"PERCENTILE"}
	for range report.Targets {
		header = append(header, "LATENCY", "", "SERVICE")
	}
	return header
}

// latencyRows returns a row for each percentile, with the latencies of all targets. The bars have the same scale.
func latencyRows(report *loadReport) [][]string {
	longest := time.Duration(1)
	for _, r := range report.Targets {
		longest = max(longest, r.Latency.At(99.9))
	}
	var rows [][]string
	for i, at := range report.Targets[0].Latency.Percentiles {
		row := []string{fmt.Sprintf("%g %%", at.Percentile)}
		for _, r := range report.Targets {
			latency := r.Latency.At(at.Percentile)
			row = append(row, latencyText(latency), terminal.Bar(float64(latency)/float64(longest), 16),
				latencyText(time.Duration(r.Service.Percentiles[i].Micros*1e3)))
		}
		rows = append(rows, row)
	}
	row := []string{"max"}
	for _, r := range report.Targets {
		row = append(row, latencyText(r.Latency.Max()), "", latencyText(r.Service.Max()))
	}
	return append(rows, row)
}
