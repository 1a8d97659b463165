package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/server/sim"
	"github.com/headgate/headgate/server/sim/chart"
)

// A Figure is a count that a chart can show over time.
type Figure string

// The figures.
const (
	Admitted        Figure = "admitted"
	WronglyAdmitted Figure = "wrongly-admitted"
	WronglyDenied   Figure = "wrongly-denied"
	RedisCalls      Figure = "redis-calls"
)

// Figures are all figures, in the order of the report.
var Figures = []Figure{Admitted, WronglyAdmitted, WronglyDenied, RedisCalls}

var titles = map[Figure]string{
	Admitted: "Admitted requests per second", WronglyAdmitted: "Wrongly admitted requests per second",
	WronglyDenied: "Wrongly denied requests per second", RedisCalls: "Redis calls per second",
}

func (f Figure) of(s *sim.Series) []int64 {
	switch f {
	case WronglyAdmitted:
		return s.WronglyAdmitted
	case WronglyDenied:
		return s.WronglyDenied
	case RedisCalls:
		return s.RedisCalls
	default:
		return s.Admitted
	}
}

// variant returns the name of a result in charts.
func variant(r *sim.Result) string { return r.Algorithm + " " + r.Mode }

// rates converts counts per step to a series of rates per second. The series of a partial result ends earlier.
func rates(name string, r *sim.Result, counts []int64) chart.Series {
	step := r.Series.StepSeconds
	series := chart.Series{Name: name}
	for i, n := range counts {
		if r.Partial && float64(i)*step >= r.Simulated {
			break
		}
		series.Values = append(series.Values, float64(n)/step)
	}
	return series
}

// overTime returns the chart of a figure, or nil if the figure is always 0. If there is only one result, the chart of
// admitted requests also shows all requests.
func overTime(results *sim.Results, f Figure) *chart.LineChart {
	c := &chart.LineChart{Title: titles[f], XUnit: "s"}
	used := false
	for _, r := range results.Results {
		counts := f.of(&r.Series)
		used = used || slices.ContainsFunc(counts, func(n int64) bool { return n > 0 })
		if f == Admitted && len(results.Results) == 1 {
			c.Series = append(c.Series, rates("all requests", r, r.Series.Requests))
		}
		c.Series, c.Step = append(c.Series, rates(variant(r), r, counts)), r.Series.StepSeconds
		if len(r.Marks) > len(c.Marks) {
			c.Marks = nil
			for _, m := range r.Marks {
				c.Marks = append(c.Marks, chart.Mark{X: m.Seconds, Label: m.Text})
			}
		}
	}
	if !used {
		return nil
	}
	return c
}

// Picture returns the chart of a figure as an SVG file.
func Picture(results *sim.Results, f Figure) string {
	c := overTime(results, f)
	if c == nil {
		c = &chart.LineChart{Title: titles[f] + ": none", XUnit: "s", Step: max(results.Duration, 1)}
	}
	return c.SVG(true)
}

// decisions returns the chart of all decisions.
func decisions(results *sim.Results) *chart.BarChart {
	c := &chart.BarChart{Title: "Decisions", Parts: []string{"admitted", "wrongly admitted", "denied", "wrongly denied"}}
	for _, r := range results.Results {
		c.Bars = append(c.Bars, chart.Bar{
			Name: variant(r), Text: chart.Number(float64(r.Requests)) + " requests",
			Parts: []float64{
				float64(r.Admitted - r.WronglyAdmitted), float64(r.WronglyAdmitted), float64(r.Denied - r.WronglyDenied),
				float64(r.WronglyDenied),
			},
		})
	}
	return c
}

// latencies returns the chart of the time that decisions take.
func latencies(results *sim.Results) *chart.BarChart {
	c := &chart.BarChart{Title: "Added latency, 99th percentile"}
	for _, r := range results.Results {
		text := fmt.Sprintf("p50 %s, p99 %s", micros(r.Latency.P50), micros(r.Latency.P99))
		c.Bars = append(c.Bars, chart.Bar{Name: variant(r), Parts: []float64{r.Latency.P99}, Text: text})
	}
	return c
}

func micros(us float64) string {
	return time.Duration(us * float64(time.Microsecond)).Round(time.Microsecond).String()
}

// traffic returns the chart of bytes sent per second.
func traffic(results *sim.Results) *chart.BarChart {
	c := &chart.BarChart{Title: "Bytes sent per second between nodes and Redis"}
	for _, r := range results.Results {
		rate := perSecond(r, r.BytesSent)
		c.Bars = append(c.Bars, chart.Bar{Name: variant(r), Parts: []float64{rate}, Text: chart.Number(rate) + "B/s"})
	}
	return c
}

func perSecond(r *sim.Result, n int64) float64 {
	if r.Simulated == 0 {
		return 0
	}
	return float64(n) / r.Simulated
}
