package traffic

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/server/telemetry/traffic/ruleorder"
)

// A SeriesQuery selects a series.
type SeriesQuery struct {
	Rule   string   // only this rule, also in the total; empty for all
	Rules  []string // only these rules, and the total of all; empty for all
	Order  ruleorder.Order
	Window time.Duration
	Limit  int
}

// Series are the counts of rules by step.
type Series struct {
	Window    string       `json:"window"`
	Step      string       `json:"step"`
	Start     time.Time    `json:"start"`
	Rules     []RuleSeries `json:"rules"`
	Total     Columns      `json:"total"`
	MoreRules int          `json:"more_rules,omitempty"`
}

// RuleSeries are the counts of one rule.
type RuleSeries struct {
	Rule string `json:"rule"`
	Columns
}

// Columns have one number for each step, the oldest first.
type Columns struct {
	Requests     []uint64  `json:"requests"`
	Allowed      []uint64  `json:"allowed"`
	Denied       []uint64  `json:"denied"`
	Delayed      []uint64  `json:"delayed"`
	ShadowDenied []uint64  `json:"shadow_denied"`
	Degraded     []uint64  `json:"degraded"`
	Cost         []uint64  `json:"cost"`
	LatencyUS    []float64 `json:"latency_us"`
}

// The limits of SeriesQuery.Window. The step is a second for windows up to secondsUpTo, a minute up to minutesUpTo, and
// ten minutes for longer ones.
const (
	MinWindow = 10 * time.Second
	MaxWindow = 7 * 24 * time.Hour

	secondsUpTo = 10 * time.Minute
	minutesUpTo = 24 * time.Hour
)

// Lag is the age from which a second is considered complete, because all nodes should have reported it.
const Lag = 3 * time.Second

func stepOf(window time.Duration) time.Duration {
	switch {
	case window <= secondsUpTo:
		return time.Second
	case window <= minutesUpTo:
		return time.Minute
	}
	return 10 * time.Minute
}

// Series returns the counts in a window up to now.
func (h *History) Series(q SeriesQuery, now time.Time) *Series {
	step := stepOf(q.Window)
	count := int((q.Window + step - 1) / step)
	end := now.Add(-Lag).Truncate(time.Second).Add(time.Second) // exclusive
	if step > time.Second {
		end = now.Truncate(step).Add(step) // the last step is in progress
		if step == time.Minute {
			end = now.Add(-Lag).Truncate(step).Add(step)
		}
	}
	start := end.Add(-time.Duration(count) * step)
	cells, selected := map[string][]Counts{}, map[string]bool{Total: true}
	for _, rule := range q.Rules {
		selected[rule] = true
	}
	add := func(rule string, unix int64, c *Counts) {
		if q.Rule != "" && rule != q.Rule || len(q.Rules) > 0 && !selected[rule] || unix < start.Unix() || unix >= end.Unix() {
			return
		}
		list := cells[rule]
		if list == nil {
			list = make([]Counts, count)
			cells[rule] = list
		}
		list[(unix-start.Unix())/int64(step/time.Second)].Add(c)
	}
	h.mu.Lock()
	if step == time.Second {
		h.eachSecond(start.Unix(), add)
	} else {
		h.eachMinute(start.Unix(), add)
	}
	h.mu.Unlock()
	total := cells[Total]
	if q.Rule != "" {
		total = cells[q.Rule]
	}
	if total == nil {
		total = make([]Counts, count)
	}
	delete(cells, Total)
	s := &Series{
		Window: Short(q.Window), Step: Short(step), Start: start.UTC(), Rules: []RuleSeries{}, Total: columnsOf(total),
	}
	for _, rule := range sortedRules(cells, q.Order) {
		if len(s.Rules) == q.Limit {
			s.MoreRules++
			continue
		}
		s.Rules = append(s.Rules, RuleSeries{rule, columnsOf(cells[rule])})
	}
	return s
}

// sortedRules returns the rules in an order.
func sortedRules(cells map[string][]Counts, order ruleorder.Order) (rules []string) {
	sums := make([]ruleorder.Sum, 0, len(cells))
	for rule, list := range cells {
		sum := ruleorder.Sum{Rule: rule}
		for i := range list {
			sum.Requests += list[i].Requests
			sum.Denied += list[i].Denied
			sum.ShadowDenied += list[i].ShadowDenied
		}
		sums = append(sums, sum)
	}
	slices.SortFunc(sums, func(a, b ruleorder.Sum) int { return order.Compare(&a, &b) })
	for i := range sums {
		rules = append(rules, sums[i].Rule)
	}
	return rules
}

func (h *History) eachSecond(from int64, f func(rule string, unix int64, c *Counts)) {
	for rule, r := range h.rings {
		for i, unix := range r.unix {
			if unix >= from {
				c := r.at(i)
				f(rule, unix, &c)
			}
		}
	}
}

func (r *ring) at(i int) (c Counts) {
	for f, p := range c.pointers() {
		*p = uint64(r.counts[i][f])
	}
	return c
}

func (h *History) eachMinute(from int64, f func(rule string, unix int64, c *Counts)) {
	for rule, l := range h.logs {
		l.each(from, func(minute int64, c *Counts) { f(rule, minute, c) })
	}
	for minute, rules := range h.open {
		for rule, c := range rules {
			f(rule, minute, c)
		}
	}
}

func columnsOf(list []Counts) Columns {
	n := len(list)
	c := Columns{
		Requests: make([]uint64, n), Allowed: make([]uint64, n), Denied: make([]uint64, n), Delayed: make([]uint64, n),
		ShadowDenied: make([]uint64, n), Degraded: make([]uint64, n), Cost: make([]uint64, n), LatencyUS: make([]float64, n),
	}
	for i := range list {
		at := &list[i]
		c.Requests[i], c.Allowed[i], c.Denied[i], c.Delayed[i] = at.Requests, at.Allowed(), at.Denied, at.Delayed
		c.ShadowDenied[i], c.Degraded[i], c.Cost[i] = at.ShadowDenied, at.Degraded, at.Cost
		if at.Timed > 0 {
			c.LatencyUS[i] = math.Round(float64(at.TookNS)/float64(at.Timed)/10) / 100
		}
	}
	return c
}

// Short formats a duration without zero units: 10m, 24h.
func Short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// A ClientsQuery selects clients.
type ClientsQuery struct {
	Rule     string            // empty for all
	Search   string            // empty for all
	Searched []string          // Search as a whole value, in the forms in which attributes keep it
	Client   map[string]string // attributes in their kept form; empty for all
	Window   time.Duration
	Limit    int
	Requests bool // clients with the most requests first, instead of those with the most denials
	Series   bool // with the counts of each client over time
}

// Clients are the clients in a window.
type Clients struct {
	Window  string      `json:"window"`
	Order   string      `json:"order"`
	Clients []ClientRow `json:"clients"`
}

// A ClientRow is a client with its counts and, if they were asked for, its series. Hash stands for the client's counters
// under the rule; it is the same on all nodes with the same secret.
type ClientRow struct {
	ClientCount
	Hash   string        `json:"hash"`
	Series *ClientSeries `json:"series,omitempty"`
}

// Clients returns the clients with the most requests or denials in a window up to now. Clients are kept by the minute
// and, for windows of more than an hour, by the hour. Of the first minute or hour, only the share that is in the window
// counts, so that a client does not have more requests than its rule.
func (h *History) Clients(q ClientsQuery, now time.Time) *Clients {
	sums, series := clientSums{}, newSeriesSums(&q, now)
	from := now.Add(-q.Window).Unix()
	search, searched := strings.ToLower(q.Search), slices.Concat(q.Searched, []string{h.options.Namer.HashOf(q.Search)})
	add := func(at, seconds int64, list clientSums) {
		part := at + seconds - from
		if part <= 0 {
			return
		}
		for key, c := range list {
			if (q.Rule == "" || key.rule == q.Rule) && (search == "" || key.client.matches(search, searched)) &&
				(len(q.Client) == 0 || key.client.Agrees(q.Client)) {
				counted := c.part(min(part, seconds), seconds)
				sums.add(&counted)
				series.add(key, at, c)
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.Window <= keptMinutes*time.Minute {
		for minute, list := range h.byMin {
			add(minute, 60, list)
		}
		for at, list := range h.storedMin {
			add(at.unix, 60, list)
		}
	} else {
		for hour, list := range h.byHour {
			add(hour, 3600, list)
		}
		for at, list := range h.storedHour {
			add(at.unix, 3600, list)
		}
	}
	for _, n := range h.nodes {
		current := clientSums{}
		for i := range n.clients {
			current.add(&n.clients[i])
		}
		add(n.minute, 60, current)
	}
	result := &Clients{Window: Short(q.Window), Order: "denied", Clients: []ClientRow{}}
	if q.Requests {
		result.Order = "requests"
	}
	list := sums.sorted(!q.Requests)
	if !q.Requests { // clients that only shadow rules would have denied come after clients that were denied
		slices.SortStableFunc(list, func(a, b ClientCount) int { return cmp.Compare(a.denialRank(), b.denialRank()) })
	}
	for _, c := range list[:min(len(list), q.Limit)] {
		result.Clients = append(result.Clients, ClientRow{
			c, h.options.Namer.HashOf(c.Rule + "\n" + string(c.Client)), series.of(clientRule{c.Client, c.Rule}),
		})
	}
	return result
}

// A LiveRow has the counts of a rule in one second.
type LiveRow struct {
	Rule         string `json:"rule,omitempty"`
	Requests     uint64 `json:"requests"`
	Allowed      uint64 `json:"allowed"`
	Denied       uint64 `json:"denied"`
	Delayed      uint64 `json:"delayed"`
	ShadowDenied uint64 `json:"shadow_denied"`
	Degraded     uint64 `json:"degraded"`
	Cost         uint64 `json:"cost"`
}

// Live is an event of the live stream.
type Live struct {
	Time  time.Time `json:"time"`
	Rules []LiveRow `json:"rules"`
	Total LiveRow   `json:"total"`
}

func liveRow(rule string, c *Counts) LiveRow {
	return LiveRow{rule, c.Requests, c.Allowed(), c.Denied, c.Delayed, c.ShadowDenied, c.Degraded, c.Cost}
}

// Live returns the counts of the latest complete second.
func (h *History) Live(rule string, limit int, now time.Time) *Live {
	at := now.Add(-Lag).Truncate(time.Second)
	result := &Live{Time: at.UTC(), Rules: []LiveRow{}}
	h.mu.Lock()
	for id, r := range h.rings {
		i := at.Unix() % ringSeconds
		if r.unix[i] != at.Unix() || rule != "" && id != rule {
			continue
		}
		c := r.at(int(i))
		if id == Total || id == rule {
			result.Total = liveRow("", &c)
		}
		if id != Total {
			result.Rules = append(result.Rules, liveRow(id, &c))
		}
	}
	h.mu.Unlock()
	slices.SortFunc(result.Rules, func(a, b LiveRow) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Rule, b.Rule))
	})
	result.Rules = result.Rules[:min(len(result.Rules), limit)]
	return result
}
