package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// A Series is one line of a LineChart, with a value for each step.
type Series struct {
	Name   string
	Values []float64
}

// A Mark is a vertical line with a label.
type Mark struct {
	X     float64
	Label string
}

// A LineChart is a chart of lines over the same steps.
type LineChart struct {
	Title  string
	XUnit  string  // unit of the x axis, such as "s"
	Step   float64 // distance between two values, in XUnit
	Series []Series
	Marks  []Mark
	// Bound is the value of a dashed line with the label BoundLabel. If Bound is 0, there is no such line.
	Bound      float64
	BoundLabel string
}

// The layout of all charts, in pixels.
const (
	width      = 760
	height     = 260
	left       = 64
	right      = 16
	top        = 46
	bottom     = 34
	plotWidth  = width - left - right
	plotHeight = height - top - bottom
)

// Style is the style sheet of all charts. A page that embeds charts needs it once.
const Style = `.hg{font:12px system-ui,sans-serif;--ink:#1f2933;--soft:#66727f;--grid:#e3e7eb;--paper:#fff;` +
	`--c0:#2563eb;--c1:#d9480f;--c2:#0f8a5f;--c3:#9333ea;--c4:#b7791f;--c5:#0891b2;--c6:#be185d;--c7:#4d7c0f}` +
	`@media(prefers-color-scheme:dark){.hg{--ink:#e6e9ed;--soft:#9aa5b1;--grid:#343c46;--paper:#181c21;` +
	`--c0:#6ea8fe;--c1:#ff9466;--c2:#4fd1a1;--c3:#c79bff;--c4:#e9b949;--c5:#5ccfe6;--c6:#f783ac;--c7:#a9d65c}}` +
	`.hg text{fill:var(--ink)}.hg .soft{fill:var(--soft)}.hg .title{font-weight:600;font-size:14px}` +
	`.hg .grid{stroke:var(--grid)}.hg .paper{fill:var(--paper)}.hg .line{fill:none;stroke-width:2;stroke-linejoin:round}` +
	`.hg .mark{stroke:var(--soft);stroke-dasharray:2 4}.hg .bound{stroke:var(--ink);stroke-dasharray:6 4}`

// colors is the number of colors in Style.
const colors = 8

func color(i int) string { return "var(--c" + strconv.Itoa(i%colors) + ")" }

// A picture collects the elements of an SVG.
type picture struct{ strings.Builder }

func (p *picture) add(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func (p *picture) text(class, anchor string, x, y float64, text string) {
	p.add(`<text class="%s" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, class, anchor, x, y, html.EscapeString(text))
}

// svg returns a picture. A standalone picture has the style sheet and a background.
func svg(title string, h int, standalone bool, draw func(*picture)) string {
	var p picture
	p.add(`<svg xmlns="http://www.w3.org/2000/svg" class="hg" role="img" aria-label="%s" viewBox="0 0 %d %d" width="%d">`,
		html.EscapeString(title), width, h, width)
	if standalone {
		p.add(`<style>%s</style><rect class="paper" width="%d" height="%d"/>`, Style, width, h)
	}
	p.text("title", "start", 8, 18, title)
	draw(&p)
	p.WriteString("</svg>\n")
	return p.String()
}

// niceCeil rounds x up to 1, 2, 2.5 or 5 times a power of ten.
func niceCeil(x float64) float64 {
	if x <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, f := range []float64{1, 2, 2.5, 5, 10} {
		if x <= f*power*(1+1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// Number formats a number with at most three digits and a suffix.
func Number(x float64) string {
	suffix := ""
	for _, next := range []string{"k", "M", "G", "T"} {
		if math.Abs(x) < 999.5 { // larger numbers are rounded to 1000, which has four digits
			break
		}
		x, suffix = x/1000, next
	}
	return strconv.FormatFloat(x, 'g', 3, 64) + suffix
}

// SVG draws the chart. A standalone chart contains its style sheet, so it can be saved as a file.
func (c *LineChart) SVG(standalone bool) string {
	yMax, steps := c.Bound, 1
	for _, l := range c.Series {
		steps = max(steps, len(l.Values))
		for _, v := range l.Values {
			yMax = max(yMax, v)
		}
	}
	yMax = niceCeil(yMax)
	end := float64(steps) * c.Step
	x := func(at float64) float64 { return left + plotWidth*at/end }
	y := func(v float64) float64 { return top + plotHeight*(1-v/yMax) }
	return svg(c.Title, height, standalone, func(p *picture) {
		for i := range 5 {
			v := yMax * float64(i) / 4
			p.add(`<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, left, width-right, y(v), y(v))
			p.text("soft", "end", left-8, y(v)+4, Number(v))
		}
		for i, tick := 0, niceCeil(end/7); float64(i)*tick <= end; i++ {
			at := float64(i) * tick
			p.text("soft", "middle", x(at), height-12, Number(at)+" "+c.XUnit)
		}
		for i, m := range c.Marks {
			p.add(`<line class="mark" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, x(m.X), x(m.X), top, height-bottom)
			p.text("soft", "start", x(m.X)+3, float64(top+10+12*(i%3)), m.Label)
		}
		if c.Bound > 0 {
			p.add(`<line class="bound" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, left, width-right, y(c.Bound), y(c.Bound))
			p.text("soft", "end", width-right-4, y(c.Bound)-4, c.BoundLabel)
		}
		for i, l := range c.Series {
			p.add(`<path class="line" stroke="%s" d="`, color(i))
			command := 'M' // move to the first point
			for j, v := range l.Values {
				p.add("%c%.1f %.1f", command, x((float64(j)+0.5)*c.Step), y(v))
				command = 'L' // draw a line to each other point
			}
			p.WriteString(`"/>`)
		}
		legend(p, c.names())
	})
}

func (c *LineChart) names() []string {
	var names []string
	for _, l := range c.Series {
		names = append(names, l.Name)
	}
	return names
}

// legend draws names and their colors below the title.
func legend(p *picture, names []string) {
	x := 8.0
	for i, name := range names {
		p.add(`<rect x="%.1f" y="27" width="10" height="10" rx="2" fill="%s"/>`, x, color(i))
		p.text("", "start", x+14, 36, name)
		x += 30 + 6.6*float64(len(name))
	}
}
