package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// frame returns the live view of a flood: a bar for each client, and what it got in the last second.
func (d *demo) frame(f *flood, lately []count) []string {
	head := fmt.Sprintf("  %-8s %-*s %10s %9s   %s", "", cells, "", "allowed/s", "denied/s", "may come back")
	lines := []string{d.paint(dim, head)}
	for i, c := range f.clients {
		allowed := d.paint(green, fmt.Sprintf("%10d", lately[i].allowed))
		denied := fmt.Sprintf("%9d", lately[i].denied)
		if lately[i].denied > 0 {
			denied = d.paint(red, denied)
		}
		lines = append(lines, fmt.Sprintf("  %-8s %s %s %s   %s", c.name, d.bar(c), allowed, denied, f.comeBack(c)))
	}
	return lines
}

// bar shows one part of the time after the other: green for what was allowed of it, red for what was denied.
func (d *demo) bar(c *client) string {
	var b strings.Builder
	for i := range c.parts {
		b.WriteString(d.cell(c.parts[i].count()))
	}
	return b.String()
}

// cell shows a part as a block, filled from below as far as requests passed.
func (d *demo) cell(c count) string {
	const eighths = 8
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	switch {
	case c.asked() == 0:
		return d.paint(dim, "╌")
	case c.denied == 0:
		return d.paint(green, "█")
	case c.allowed == 0:
		return d.paint(red, "█")
	}
	filled := (c.allowed*eighths + c.asked()/2) / c.asked()
	return d.paint(mixed, string(blocks[min(max(filled, 1), eighths-1)]))
}

// comeBack says when a client's next request will pass.
func (f *flood) comeBack(c *client) string {
	left := time.Duration(c.backAt.Load()) - time.Since(f.start)
	if left <= 0 {
		return "now"
	}
	return fmt.Sprintf("in %d ms", left.Milliseconds()+1)
}

// logHead returns the head of the table that logLine writes the lines of.
func logHead(f *flood) []string {
	var b strings.Builder
	b.WriteString("  after")
	for _, c := range f.clients {
		fmt.Fprintf(&b, "%14s", c.name)
	}
	return []string{"  passed/denied in every second:", "", b.String() + "   noisy back"}
}

func logLine(f *flood, before, now []count) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5.0f s", time.Since(f.start).Seconds())
	for i := range f.clients {
		lately := now[i].minus(before[i])
		fmt.Fprintf(&b, "%14s", fmt.Sprintf("%d/%d", lately.allowed, lately.denied))
	}
	return b.String() + "   " + f.comeBack(f.clients[0])
}

// grouped writes a number with commas between the thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
