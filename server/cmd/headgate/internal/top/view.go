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
	var highest uint64
	for _, n := range list {
		highest = max(highest, n)
	}
	line := make([]rune, len(list))
	for i, n := range list {
		line[i] = bars[0]
		if highest > 0 {
			line[i] = bars[n*uint64(len(bars)-1)/highest]
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

// view draws the screen, cut to its width and height.
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
		step := s.figures.step()
		add("%.1f req/s  %.1f denied/s  %.1f degraded/s  %s", rate(total.Requests, step), rate(total.Denied, step),
			rate(total.Degraded, step), s.nodeSummary())
	}
	add("")
	if s.figures != nil {
		s.addTables(add)
	}
	help := "q quit  s sort by " + string(s.otherOrder()) + "  / filter  p pause"
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

// otherOrder returns the order that the s key selects.
func (s *screen) otherOrder() Order {
	if s.order == ByDenied {
		return ByRequests
	}
	return ByDenied
}

// minNameWidth is the minimum width of a column with names.
const minNameWidth = 12

// addTables adds the rules, the clients, the stores and the nodes. Stores and nodes get up to a quarter of the lines
// each, rules up to half of the rest.
func (s *screen) addTables(add func(string, ...any)) {
	rates := s.figures.Rates(s.order, s.search)
	room := max(s.height-9, 3) // without the first lines, the headings, the empty lines and the help
	if len(s.figures.Stores) > 0 {
		room = max(room-2, 4) // their heading and the empty line
	}
	stores := linesOf(len(s.figures.Stores), room/4)
	nodes := linesOf(len(s.figures.Nodes), room/4)
	more := s.figures.Traffic.MoreRules
	rules := linesOf(len(rates)+min(more, 1), (room-stores-nodes)/2)
	s.addRules(add, rates, more, rules)
	add("")
	s.addClients(add, max(room-stores-nodes-rules, 1))
	if stores > 0 {
		add("")
		s.addStores(add, stores)
	}
	add("")
	s.addNodes(add, nodes)
}

// linesOf returns the number of lines for a list with n elements: at most maxLines, and at least one.
func linesOf(n, maxLines int) int { return min(n, max(maxLines, 1)) }

// shownOf returns how many of n elements to show in the given number of lines, and how many are left out. If elements
// are left out, the last line is for their number.
func shownOf(n, lines int) (shown, more int) {
	if n > lines && lines > 1 {
		lines--
	}
	shown = min(n, lines)
	return shown, n - shown
}

// addRules adds rules. more is the number of rules that are not in rates.
func (s *screen) addRules(add func(string, ...any), rates []RuleRate, more, lines int) {
	const otherColumns = 52 // the width of the other columns and of the spaces between columns
	ruleWidth := max(s.width-otherColumns, minNameWidth)
	add("%-*s %9s %9s %9s  %s", ruleWidth, "RULE", "REQ/S", "DENIED/S", "SHADOW/S", "LAST SECONDS")
	shown, left := shownOf(len(rates)+more, lines)
	for i := range rates[:min(shown, len(rates))] {
		r := &rates[i]
		add("%-*s %9.1f %9.1f %9.1f  %s", ruleWidth, output.Truncate(output.Sanitize(r.Rule), ruleWidth), r.Requests,
			r.Denied, r.Shadow, sparkline(r.Spark, 20))
	}
	if left > 0 {
		add("and %d more", left)
	}
}

func (s *screen) addClients(add func(string, ...any), room int) {
	const otherColumns = 41                                  // as in addRules
	nameWidth := max((s.width-otherColumns)/2, minNameWidth) // of the client, and of the rule
	add("%-*s %-*s %9s %9s %9s", nameWidth, "CLIENT", nameWidth, "RULE", "REQUESTS", "ALLOWED", "DENIED")
	list := s.figures.SortedClients(s.order)
	for i := range list[:min(len(list), room)] {
		c, mark := &list[i], ""
		if c.Shadow {
			mark = " shadow"
		}
		add("%-*s %-*s %9d %9d %9d%s", nameWidth, output.Truncate(ClientText(c.Client), nameWidth), nameWidth,
			output.Truncate(output.Sanitize(c.Rule), nameWidth), c.Requests, c.Allowed, c.Denied, mark)
	}
}

// addStores adds Redis servers, those that do not respond first.
func (s *screen) addStores(add func(string, ...any), lines int) {
	const otherColumns = 59 // as in addRules
	nameWidth := max(s.width-otherColumns, minNameWidth)
	line := func(c []string) {
		add("%-*s %-8s %8s %6s %10s %8s  %s", nameWidth, output.Truncate(c[0], nameWidth), output.Truncate(c[1], 8),
			c[2], c[3], c[4], c[5], c[6])
	}
	line(StoreHeader)
	list := s.figures.StoreRows()
	shown, more := shownOf(len(list), lines)
	for _, row := range list[:shown] {
		line(row)
	}
	if more > 0 {
		add("and %d more", more)
	}
}

// addNodes adds nodes with their stores, those with a problem first.
func (s *screen) addNodes(add func(string, ...any), lines int) {
	const otherColumns = 34                                  // as in addRules, without the store
	nodeWidth := max((s.width-otherColumns)/2, minNameWidth) // the store gets as much
	line := func(c []string) {
		add("%-*s %-8s %9s %8s  %s", nodeWidth, output.Truncate(c[0], nodeWidth), output.Truncate(c[1], 8), c[2], c[3], c[4])
	}
	line(NodeHeader)
	list := s.figures.NodeRows(time.Now())
	shown, more := shownOf(len(list), lines)
	for _, row := range list[:shown] {
		line(row)
	}
	if more > 0 {
		add("and %d more", more)
	}
}

// nodeSummary returns the number of nodes, and the state of the first store that is not ok.
func (s *screen) nodeSummary() string {
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
