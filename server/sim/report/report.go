package report

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"strconv"
	"strings"

	"github.com/headgate/headgate/server/sim"
	"github.com/headgate/headgate/server/sim/chart"
)

//go:embed report.html
var pageTemplate string

// Write writes the results as a self-contained HTML page, without scripts or external files.
func Write(w io.Writer, results *sim.Results) error {
	var description string
	if results.Description != "" {
		description = element("p", results.Description)
	}
	var charts strings.Builder
	add := func(svg string) { fmt.Fprintf(&charts, "<div class=\"card\">%s</div>\n", svg) } // charts escape their strings
	add(decisions(results).SVG(false))
	for _, f := range Figures {
		if c := overTime(results, f); c != nil {
			add(c.SVG(false))
		}
	}
	add(latencies(results).SVG(false))
	add(traffic(results).SVG(false))
	var rows strings.Builder
	for _, r := range results.Results {
		writeRow(&rows, r)
	}
	_, err := strings.NewReplacer(
		"{{scenario}}", html.EscapeString(results.Scenario),
		"{{style}}", chart.Style,
		"{{description}}", description,
		"{{duration}}", fmt.Sprint(results.Duration),
		"{{seed}}", fmt.Sprint(results.Seed),
		"{{notes}}", list(notes(results)),
		"{{rows}}", rows.String(),
		"{{charts}}", charts.String(),
	).WriteString(w, pageTemplate)
	return err
}

// element returns an HTML element that contains the escaped text.
func element(name, text string) string {
	return "<" + name + ">" + html.EscapeString(text) + "</" + name + ">"
}

// list returns an HTML list, or nothing if there are no items.
func list(items []string) string {
	if len(items) == 0 {
		return ""
	}
	var b strings.Builder
	for _, item := range items {
		b.WriteString(element("li", item))
	}
	return "<ul>" + b.String() + "</ul>"
}

// writeRow writes a result as a row of the table.
func writeRow(b *strings.Builder, r *sim.Result) {
	mode := html.EscapeString(r.Mode)
	switch {
	case r.Partial && r.Simulated == 0:
		mode += ` <span class="partial">not simulated</span>`
	case r.Partial:
		mode += ` <span class="partial">partial</span>`
	}
	fmt.Fprintf(b, "<tr title=\"%s\">%s<td>%s</td>", html.EscapeString(strings.Join(r.Limits, ", ")),
		element("td", r.Algorithm), mode)
	for _, value := range []string{
		grouped(r.Requests), grouped(r.Admitted), grouped(r.Denied),
		withShare(r.WronglyAdmitted, r.Requests), withShare(r.WronglyDenied, r.Requests),
		grouped(r.MaxExcess), strconv.FormatFloat(r.Burstiness, 'f', 2, 64),
		micros(r.Latency.P50), micros(r.Latency.P99), chart.Number(perSecond(r, r.RedisCalls)),
		strconv.FormatFloat(100*r.RedisLoad, 'f', 1, 64) + "%", chart.Number(perSecond(r, r.BytesSent)),
		grouped(r.Degraded), grouped(r.Unserved),
	} {
		b.WriteString(element("td", value))
	}
	b.WriteString("</tr>\n")
}

// grouped formats a number with narrow spaces as thousands separators.
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

// notes returns remarks about the results that are not in the table.
func notes(results *sim.Results) []string {
	var remarks []string
	if results.SampleOneIn > 1 {
		remarks = append(remarks, fmt.Sprintf("A sample of 1 in %d clients was simulated; all figures are for this sample.",
			results.SampleOneIn))
	}
	for _, r := range results.Results {
		switch {
		case r.Partial && r.Simulated == 0:
			remarks = append(remarks, fmt.Sprintf("%s was not simulated.", variant(r)))
		case r.Partial:
			remarks = append(remarks, fmt.Sprintf("%s is partial: the first %.1f s of %.0f s.", variant(r), r.Simulated,
				results.Duration))
		}
	}
	for _, l := range results.Logs {
		remarks = append(remarks, fmt.Sprintf("%s: %s requests read, %s lines could not be used.", l.File,
			grouped(l.Requests), grouped(l.Skipped)))
		if l.Incomplete != "" {
			remarks = append(remarks, fmt.Sprintf("%s: the rest could not be read: %s.", l.File, l.Incomplete))
		}
		for _, e := range l.Examples {
			remarks = append(remarks, fmt.Sprintf("%s:%d: %s: %s", l.File, e.Line, e.Reason, e.Text))
		}
	}
	return remarks
}
