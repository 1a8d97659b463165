package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control"
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

// addTables adds the rules, the clients and the nodes. Nodes get up to a quarter of the room, rules up to half of the rest.
func (s *screen) addTables(add func(string, ...any)) {
	rates := s.figures.Rates(s.order, s.search)
	room := max(s.height-9, 3) // without the first lines, the heads of the tables, and the help
	nodes := min(len(s.figures.Nodes), max(room/4, 1))
	rules := min(len(rates), max((room-nodes)/2, 1))
	s.addRules(add, rates[:rules])
	add("")
	s.addClients(add, max(room-nodes-rules, 1))
	add("")
	s.addNodes(add, nodes)
}

func (s *screen) addRules(add func(string, ...any), rates []RuleRate) {
	name := max(s.width-52, 12)
	add("%-*s %9s %9s %9s  %s", name, "RULE", "REQ/S", "DENIED/S", "SHADOW/S", "LAST SECONDS")
	for i := range rates {
		r := &rates[i]
		add("%-*s %9.1f %9.1f %9.1f  %s", name, output.Truncate(output.Sanitize(r.Rule), name), r.Requests, r.Denied, r.Shadow,
			sparkline(r.Spark, 20))
	}
}

func (s *screen) addClients(add func(string, ...any), room int) {
	half := max((s.width-41)/2, 12)
	add("%-*s %-*s %9s %9s %9s", half, "CLIENT", half, "RULE", "REQUESTS", "ALLOWED", "DENIED")
	list := s.figures.SortedClients(s.order)
	for i := range list[:min(len(list), room)] {
		c, mark := &list[i], ""
		if c.Shadow {
			mark = " shadow"
		}
		add("%-*s %-*s %9d %9d %9d%s", half, output.Truncate(ClientText(c.Client), half), half,
			output.Truncate(output.Sanitize(c.Rule), half), c.Requests, c.Allowed, c.Denied, mark)
	}
}

// addNodes adds nodes with their stores, those with a problem first.
func (s *screen) addNodes(add func(string, ...any), room int) {
	name := max((s.width-34)/2, 12)
	add("%-*s %-8s %9s %8s  %s", name, "NODE", "REGION", "RULES", "SEEN", "STORE")
	list := slices.Clone(s.figures.Nodes)
	slices.SortStableFunc(list, func(a, b control.Node) int { return cmp.Compare(problems(&b), problems(&a)) })
	for i := range list[:min(len(list), room)] {
		n := &list[i]
		rules := strconv.FormatInt(n.Revision, 10)
		if n.Behind {
			rules += " late"
		}
		seen := "-"
		if !n.Seen.IsZero() {
			seen = max(time.Since(n.Seen), 0).Truncate(time.Second).String()
		}
		store := "memory"
		if n.Counters != "" {
			store = "shared"
		}
		add("%-*s %-8s %9s %8s  %s: %s", name, output.Truncate(output.Sanitize(n.ID), name),
			output.Truncate(output.Sanitize(n.Region), 8), rules, seen, store, output.Sanitize(n.Store))
	}
	if more := len(list) - room; more > 0 {
		add("and %d more", more)
	}
}

// problems returns the number of problems of a node.
func problems(n *control.Node) (count int) {
	if n.Store != "ok" {
		count++
	}
	if n.Behind || n.Error != "" {
		count++
	}
	return count
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
