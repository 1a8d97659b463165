package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
)

var bars = []rune("▁▂▃▄▅▆▇█")

// sparkline draws numbers in at most width characters, the latest last.
func sparkline(list []uint64, width int) string {
	if len(list) > width {
		list = list[len(list)-width:]
	}
	var most uint64
	for _, n := range list {
		most = max(most, n)
	}
	line := make([]rune, len(list))
	for i, n := range list {
		line[i] = bars[0]
		if most > 0 {
			line[i] = bars[n*uint64(len(bars)-1)/most]
		}
	}
	return string(line)
}

// A screen is what is shown in a terminal.
type screen struct {
	figures       *Figures
	order         Order
	search        string
	editing       bool // the search is being typed
	paused        bool
	err           error
	server        string
	width, height int
}

// view draws the screen. No line is wider and there are no more lines than fit.
func (s *screen) view() string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fit(fmt.Sprintf(format, args...), s.width)) }
	state := "live"
	if s.paused {
		state = "paused"
	}
	add("headgate top  %s  %s  %s", s.server, state, time.Now().Format(time.TimeOnly))
	switch {
	case s.err != nil:
		add("error: %s", output.Sanitize(s.err.Error()))
	case s.figures == nil:
		add("loading")
	default:
		total := &s.figures.Traffic.Total
		step := time.Second
		add("%.1f req/s  %.1f denied/s  %.1f degraded/s  %s", rate(total.Requests, step), rate(total.Denied, step),
			rate(total.Degraded, step), s.nodes())
	}
	add("")
	if s.figures != nil {
		s.addTables(add)
	}
	help := "q quit  s sort by " + string(s.other()) + "  / filter  p pause"
	if s.editing {
		help = "filter: " + s.search + "_   (Enter: apply, Esc: clear)"
	} else if s.search != "" {
		help += "  [filter: " + s.search + "]"
	}
	room := max(s.height-1, 0)
	if len(lines) > room {
		lines = lines[:room]
	}
	for len(lines) < room {
		lines = append(lines, "")
	}
	return strings.Join(append(lines, fit(help, s.width)), "\n")
}

func (s *screen) other() Order {
	if s.order == ByDenied {
		return ByRequests
	}
	return ByDenied
}

// addTables adds the rules and the clients. Each gets half of the room.
func (s *screen) addTables(add func(string, ...any)) {
	room := max((s.height-7)/2, 1)
	name := max(s.width-52, 12)
	add("%-*s %9s %9s %9s  %s", name, "RULE", "REQ/S", "DENIED/S", "SHADOW/S", "LAST SECONDS")
	rates := s.figures.Rates(s.order, s.search)
	for i := range rates[:min(len(rates), room)] {
		r := &rates[i]
		add("%-*s %9.1f %9.1f %9.1f  %s", name, output.Truncate(output.Sanitize(r.Rule), name), r.Requests, r.Denied, r.Shadow,
			sparkline(r.Spark, 20))
	}
	for range room - len(rates) {
		add("")
	}
	add("")
	half := max((s.width-34)/2, 12)
	add("%-*s %-*s %9s %9s %9s", half, "CLIENT", half, "RULE", "REQUESTS", "ALLOWED", "DENIED")
	for i := range s.figures.Clients[:min(len(s.figures.Clients), room)] {
		c := &s.figures.Clients[i]
		add("%-*s %-*s %9d %9d %9d", half, output.Truncate(ClientText(c.Client), half), half,
			output.Truncate(output.Sanitize(c.Rule), half), c.Requests, c.Allowed, c.Denied)
	}
}

// nodes returns the state of the nodes in a few words.
func (s *screen) nodes() string {
	text := output.Plural(len(s.figures.Nodes), "node")
	for i := range s.figures.Nodes {
		if n := &s.figures.Nodes[i]; n.Store != "ok" {
			return text + ", " + output.Sanitize(n.ID+": "+n.Store)
		}
	}
	return text + ", stores ok"
}

// fit cuts a line to a width.
func fit(line string, width int) string {
	return output.Truncate(strings.TrimRight(line, " "), max(width, 1))
}
