// Package chaos has a test that injects random faults into a fleet of real processes under load, and checks that limits
// and responses stay correct. Run it with make chaos. A [Timeline] draws the results of a run.
package chaos

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// A Timeline has the load and the faults of a run. WriteSVG draws them.
type Timeline struct {
	Seconds []Second
	Faults  []Fault
}

// A Second has the figures of one second of load.
type Second struct {
	Allowed    int           // responses with status 200
	Denied     int           // responses with status 429
	Refused    int           // responses with status 503 because a rule fails closed
	Overloaded int           // responses with status 503 because of overload
	Violations int           // responses that must not occur
	P99        time.Duration // 99th percentile of the latency
}

// A Fault is one injected fault. It lasts from Begin to End; at Recovered, the fleet works normally again.
type Fault struct {
	Name                  string
	Begin, End, Recovered time.Duration // since the begin of the run
}

// Sizes in pixels. The picture has a plot of rates, a plot of latencies, and a row for each kind of fault.
const (
	left, right = 190, 20
	plotWidth   = 900
	plotHeight  = 130
	rowHeight   = 18
)

// WriteSVG draws the timeline.
func (t *Timeline) WriteSVG(w io.Writer) error {
	var names []string
	rows := map[string]int{}
	for _, f := range t.Faults {
		if _, ok := rows[f.Name]; !ok {
			rows[f.Name] = len(names)
			names = append(names, f.Name)
		}
	}
	d := &drawing{scale: plotWidth / max(1, float64(len(t.Seconds)))}
	height := 3*40 + 2*plotHeight + rowHeight*len(names) + 20
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`,
		left+plotWidth+right, height)
	d.add(`<rect width="100%%" height="100%%" fill="#fff"/>`)
	d.plot(30, "requests/s", []series{
		{"allowed", "#1a7f37", t.values(func(s *Second) float64 { return float64(s.Allowed) })},
		{"denied", "#9a6700", t.values(func(s *Second) float64 { return float64(s.Denied) })},
		{"refused: fail closed", "#8250df", t.values(func(s *Second) float64 { return float64(s.Refused) })},
		{"refused: overload", "#0969da", t.values(func(s *Second) float64 { return float64(s.Overloaded) })},
		{"violations", "#cf222e", t.values(func(s *Second) float64 { return float64(s.Violations) })},
	})
	d.plot(70+plotHeight, "p99 in ms", []series{
		{"p99", "#0969da", t.values(func(s *Second) float64 { return float64(s.P99.Microseconds()) / 1000 })},
	})
	top := 2*plotHeight + 110
	for i, name := range names {
		d.text(5, top+i*rowHeight+12, name)
	}
	for _, f := range t.Faults {
		y := top + rows[f.Name]*rowHeight + 3
		d.bar(f.Begin, f.End, y, "#cf222e")
		d.bar(f.End, f.Recovered, y, "#f2b8bd")
	}
	d.add(`</svg>`)
	_, err := io.WriteString(w, d.b.String())
	return err
}

// values returns one figure of each second.
func (t *Timeline) values(figure func(*Second) float64) []float64 {
	list := make([]float64, len(t.Seconds))
	for i := range t.Seconds {
		list[i] = figure(&t.Seconds[i])
	}
	return list
}

// A series is a line of a plot.
type series struct {
	name, color string
	values      []float64
}

// A drawing is an SVG picture that is being written.
type drawing struct {
	b     strings.Builder
	scale float64 // pixels per second of the run
}

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(&d.b, format+"\n", args...) }

func (d *drawing) text(x, y int, text string) {
	d.add(`<text x="%d" y="%d">`, x, y)
	_ = xml.EscapeText(&d.b, []byte(text)) // a strings.Builder does not fail
	d.add(`</text>`)
}

func (d *drawing) bar(from, to time.Duration, y int, color string) {
	x, width := left+from.Seconds()*d.scale, max(1, (to-from).Seconds()*d.scale)
	d.add(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`, x, y, width, rowHeight-6, color)
}

// plot draws the series over each other, from the pixel row top downward. All use the same scale, up to the highest
// value.
func (d *drawing) plot(top int, title string, lines []series) {
	highest := 1.0
	for _, l := range lines {
		for _, v := range l.values {
			highest = max(highest, v)
		}
	}
	d.text(5, top+12, title)
	d.text(left-45, top+10, fmt.Sprintf("%.0f", highest))
	d.text(left-15, top+plotHeight, "0")
	d.add(`<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#d0d7de"/>`, left, top, plotWidth, plotHeight)
	for i, l := range lines {
		d.text(left+10+i*170, top-6, l.name)
		d.add(`<rect x="%d" y="%d" width="8" height="8" fill="%s"/>`, left+i*170, top-14, l.color)
		d.add(`<polyline fill="none" stroke="%s" points="`, l.color)
		for second, v := range l.values {
			x := left + (float64(second)+0.5)*d.scale
			d.add(`%.1f,%.1f`, x, float64(top+plotHeight)-v/highest*plotHeight)
		}
		d.add(`"/>`)
	}
}
