package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"

	"github.com/headgate/headgate/server/sim"
	"github.com/headgate/headgate/server/sim/chart"
)

//go:embed report.html
var source string

var page = template.Must(template.New("report").Parse(source))

// A row is a result in the table of the page.
type row struct {
	Algorithm, Mode, Limits      string
	Partial                      bool
	Requests, Admitted, Denied   string
	WronglyAdmitted              string
	WronglyDenied                string
	MaxExcess, Burstiness        string
	P50, P99                     string
	RedisCalls, RedisLoad, Bytes string
	Degraded, Unserved           string
}

// Write writes the page. It needs nothing but itself: no script, and no other file.
func Write(to io.Writer, all *sim.Results) error {
	data := struct {
		*sim.Results
		Style  template.CSS
		Rows   []row
		Charts []template.HTML
		Notes  []string
	}{Results: all, Style: template.CSS(chart.Style), Notes: notes(all)}
	for _, r := range all.Results {
		data.Rows = append(data.Rows, rowOf(r))
	}
	add := func(svg string) { data.Charts = append(data.Charts, template.HTML(svg)) } // charts escape their texts
	add(decisions(all).SVG(false))
	for _, f := range Figures {
		if c := overTime(all, f); c != nil {
			add(c.SVG(false))
		}
	}
	add(latencies(all).SVG(false))
	add(traffic(all).SVG(false))
	return page.Execute(to, data)
}

func rowOf(r *sim.Result) row {
	return row{
		Algorithm: r.Algorithm, Mode: r.Mode, Limits: strings.Join(r.Limits, ", "), Partial: r.Partial,
		Requests: grouped(r.Requests), Admitted: grouped(r.Admitted), Denied: grouped(r.Denied),
		WronglyAdmitted: withShare(r.WronglyAdmitted, r.Requests), WronglyDenied: withShare(r.WronglyDenied, r.Requests),
		MaxExcess: grouped(r.MaxExcess), Burstiness: strconv.FormatFloat(r.Burstiness, 'f', 2, 64),
		P50: micros(r.Latency.P50), P99: micros(r.Latency.P99), RedisCalls: chart.Number(perSecond(r, r.RedisCalls)),
		RedisLoad: strconv.FormatFloat(100*r.RedisLoad, 'f', 1, 64) + "%", Bytes: chart.Number(perSecond(r, r.BytesSent)),
		Degraded: grouped(r.Degraded), Unserved: grouped(r.Unserved),
	}
}

// grouped formats a number with a space after every three digits.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return digits
}

func withShare(n, of int64) string {
	if n == 0 || of == 0 {
		return grouped(n)
	}
	return fmt.Sprintf("%s (%.2g%%)", grouped(n), 100*float64(n)/float64(of))
}

// notes returns sentences that the table does not say.
func notes(all *sim.Results) []string {
	var list []string
	if all.SampleOneIn > 1 {
		list = append(list, fmt.Sprintf("A sample of 1 in %d clients was simulated; figures are of the sample.", all.SampleOneIn))
	}
	for _, r := range all.Results {
		if r.Partial {
			list = append(list, fmt.Sprintf("%s is partial: the first %.1f s of %.0f s.", variant(r), r.Simulated, all.Duration))
		}
	}
	for _, l := range all.Logs {
		list = append(list, fmt.Sprintf("%s: %s requests read, %s lines could not be read.", l.File, grouped(l.Requests),
			grouped(l.Skipped)))
		for _, e := range l.Examples {
			list = append(list, fmt.Sprintf("%s:%d: %s: %s", l.File, e.Line, e.Reason, e.Text))
		}
	}
	return list
}
