package tour

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/internal/terminal"
)

// showAlgorithms is the second scene: the same requests decided by every algorithm.
func (d *demo) showAlgorithms(ctx context.Context) error {
	all, err := runLanes(ctx)
	if err != nil {
		return err
	}
	d.Title("2  One burst, every algorithm")
	d.Line("  The same requests and the limit of 5/s (concurrency: 5 at once, each 300 ms).")
	d.Line("  " + d.Paint(terminal.Green, passed) + " passes, " + d.Paint(terminal.Red, denied) +
		" is denied; on the right, the most that passed within one second.")
	d.Line("")
	for _, line := range d.timeline(all) {
		d.Line(line)
	}
	return nil
}

const (
	passed     = "█"
	denied     = "·"
	secondMark = "┊" // mark of a whole second
	laneFormat = "  %-15s %s  %s"
)

// timeline returns the lines that show the lanes.
func (d *demo) timeline(all []*lane) []string {
	lines := []string{
		d.Paint(terminal.Dim, fmt.Sprintf(laneFormat, "", ruler(), "")),
		fmt.Sprintf(laneFormat, "asked", d.strip(func(n int) string {
			if arrives(n) {
				return "▪"
			}
			return " "
		}), ""),
	}
	for _, l := range all {
		allowed := columns(l.allowedAt)
		lines = append(lines, fmt.Sprintf(laneFormat, l.name, d.strip(func(n int) string {
			switch {
			case allowed[n]:
				return d.Paint(terminal.Green, passed)
			case l.asked[n]:
				return d.Paint(terminal.Red, denied)
			}
			return " "
		}), d.verdict(l)))
		if l.releasedAt != nil {
			released := columns(l.releasedAt)
			lines = append(lines, fmt.Sprintf(laneFormat, "  and lets go", d.strip(func(n int) string {
				if released[n] {
					return d.Paint(terminal.Cyan, passed)
				}
				return " "
			}), d.peak(l.releasedAt, l.limit)))
		}
	}
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// verdict returns the text at the right end of a lane: the maximum number of requests at once or in one period.
func (d *demo) verdict(l *lane) string {
	if l.limit.Algorithm == headgate.Concurrency {
		return fmt.Sprintf("%2d at once", maxWithin(l.allowedAt, holdTime))
	}
	return d.peak(l.allowedAt, l.limit)
}

// peak formats the maximum number of times that are within one period of the limit.
func (d *demo) peak(times []time.Duration, limit headgate.Limit) string {
	n := maxWithin(times, limit.Period)
	text := fmt.Sprintf("%2d in %.0f s", n, limit.Period.Seconds())
	if int64(n) > limit.Count {
		return d.Paint(terminal.Amber, text)
	}
	return text
}

const perSecond = int(time.Second / slot)

// ruler returns a scale with a mark at every second.
func ruler() string {
	var b strings.Builder
	for n := 0; n < slots; n += perSecond {
		fmt.Fprintf(&b, "%-*s", min(perSecond, slots-n), fmt.Sprintf("│%d s", n/perSecond))
	}
	return b.String()
}

// strip returns one cell per slot. Empty cells at a whole second show a mark.
func (d *demo) strip(cellAt func(n int) string) string {
	var b strings.Builder
	for n := range slots {
		cell := cellAt(n)
		if cell == " " && n%perSecond == 0 {
			cell = d.Paint(terminal.Dim, secondMark)
		}
		b.WriteString(cell)
	}
	return b.String()
}

// columns returns the slots that contain times. It ignores times after the last slot.
func columns(times []time.Duration) [slots]bool {
	var in [slots]bool
	for _, t := range times {
		if n := int(t / slot); n < slots {
			in[n] = true
		}
	}
	return in
}
