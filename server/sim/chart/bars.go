package chart

// A Bar is a horizontal bar made of parts.
type Bar struct {
	Name  string
	Parts []float64
	Text  string // text after the bar
}

// A BarChart is a chart of horizontal bars. Parts with the same index have the same meaning in all bars.
type BarChart struct {
	Title string
	Parts []string // names of the parts; the chart has a legend if there are several
	Bars  []Bar
}

const (
	barHeight = 18
	barGap    = 8
	barLeft   = 170
	barRight  = 190
	barWidth  = width - barLeft - barRight
)

// SVG draws the chart. A standalone chart contains its style sheet, so it can be saved as a file.
func (c *BarChart) SVG(standalone bool) string {
	longest := 0.0
	for _, b := range c.Bars {
		sum := 0.0
		for _, v := range b.Parts {
			sum += v
		}
		longest = max(longest, sum)
	}
	if longest == 0 {
		longest = 1
	}
	h := top + len(c.Bars)*(barHeight+barGap) + 10
	return svg(c.Title, h, standalone, func(p *picture) {
		if len(c.Parts) > 1 {
			legend(p, c.Parts)
		}
		for i, b := range c.Bars {
			y := top + i*(barHeight+barGap)
			p.text("", "end", barLeft-8, float64(y+13), b.Name)
			x := float64(barLeft)
			for j, v := range b.Parts {
				w := barWidth * v / longest
				p.add(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`, x, y, w, barHeight, color(j))
				x += w
			}
			p.text("soft", "start", x+6, float64(y+13), b.Text)
		}
	})
}
