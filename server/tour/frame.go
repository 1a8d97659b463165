package tour

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/server/internal/terminal"
)

// frame returns the live view of a flood: for each client a bar, and its rates since an earlier sample.
func (d *demo) frame(f *flood, now, earlier sample) []string {
	lines := []string{d.Paint(terminal.Dim, fmt.Sprintf("  %-6s %10s  %-*s %9s %9s  %s",
		"", "requests/s", cells, "", "allowed/s", "denied/s", "next allowed"))}
	for i, c := range f.clients {
		rates := now.perSecond(i, earlier)
		allowed, denied := fmt.Sprintf("%9d", rates.allowed), fmt.Sprintf("%9d", rates.denied)
		if rates.denied > 0 {
			denied = d.Paint(terminal.Red, denied)
		}
		lines = append(lines, fmt.Sprintf("  %-6s %10d  %s %s %s  %s",
			c.name, rates.asked(), d.bar(c, now.at, f.duration), d.Paint(terminal.Green, allowed), denied,
			f.retryText(c, now.at)))
	}
	return lines
}

// bar returns a client's requests over time, with one cell for each part of the run: green for allowed requests, red
// for denied ones. Future cells are blank.
func (d *demo) bar(c *client, now, duration time.Duration) string {
	var b strings.Builder
	for i := range c.parts {
		if i > partAt(now, duration) {
			b.WriteString(" ")
			continue
		}
		b.WriteString(d.cell(c.parts[i].count()))
	}
	return b.String()
}

// cell returns a block that is filled from below according to the share of allowed requests.
func (d *demo) cell(c count) string {
	const eighths = 8
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	switch {
	case c.asked() == 0:
		return d.Paint(terminal.Dim, "╌")
	case c.denied == 0:
		return d.Paint(terminal.Green, "█")
	case c.allowed == 0:
		return d.Paint(terminal.Red, "█")
	}
	filled := (c.allowed*eighths + c.asked()/2) / c.asked()
	return d.Paint(terminal.GreenOnRed, string(blocks[min(max(filled, 1), eighths-1)]))
}

// retryText returns the time until a client's next request will be allowed, as text.
func (f *flood) retryText(c *client, now time.Duration) string {
	left := time.Duration(c.retryAt.Load()) - now
	if left <= 0 {
		return "now"
	}
	return fmt.Sprintf("in %d ms", left.Milliseconds()+1)
}

// logHead returns the header for the lines that logLine returns. Their last column is about the client "noisy", which
// is the first one.
func (f *flood) logHead() string {
	var b strings.Builder
	b.WriteString("  passed/denied")
	for _, c := range f.clients {
		fmt.Fprintf(&b, "%10s", c.name)
	}
	return b.String() + "   noisy may come back"
}

// logLine returns the rates since an earlier sample, and the time until the next request of "noisy" will be allowed.
func (f *flood) logLine(now, earlier sample) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %11.0f s", now.at.Seconds())
	for i := range f.clients {
		rates := now.perSecond(i, earlier)
		fmt.Fprintf(&b, "%10s", fmt.Sprintf("%d/%d", rates.allowed, rates.denied))
	}
	return b.String() + "   " + f.retryText(f.clients[0], now.at)
}

// grouped formats a number with commas between thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
