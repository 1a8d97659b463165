package traffic

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// HistoryOptions configure a History.
type HistoryOptions struct {
	// Keep is how long the counts per minute are kept. Default 7 days.
	Keep time.Duration
	// MaxBytes is the maximum memory for the counts per minute. Above it, the least active rules are dropped. Default
	// 48 MiB.
	MaxBytes int
	// Clients is how long clients are kept by the minute, at most ClientMinutes. Default ClientMinutes; then, they are also
	// kept by the hour, for as long as Keep.
	Clients time.Duration
	// Namer converts the values that are searched for. It must have the same mode and secret as the Namers of the nodes,
	// otherwise a search does not find hidden values. Default a Namer without a secret.
	Namer *Namer
}

// NodeHistoryKeep, NodeHistoryMaxBytes and NodeHistoryClients are Keep, MaxBytes and Clients of a node's History of its
// own requests.
const (
	NodeHistoryKeep     = 24 * time.Hour
	NodeHistoryMaxBytes = 5 << 19
	NodeHistoryClients  = 5 * time.Minute
)

const (
	// ringSeconds is the number of seconds that are kept: ten minutes, and some more for reports that arrive late.
	ringSeconds = 640
	// maxAhead is how many seconds the clock of a node may be ahead of this one. It is half a ring, so that seconds in
	// the future replace only the older half of a ring.
	maxAhead = ringSeconds / 2
	// maxRings is the number of rules whose seconds are kept.
	maxRings = 200
	// openMinutes is the number of minutes that reports may still add to.
	openMinutes = 2
	// maxNodes is the maximum number of nodes of a History. Reports of others are ignored.
	maxNodes = 10_000
	// maxRules is the maximum number of rules in a minute. Others are ignored.
	maxRules = 20_000
	// For each minute, the minuteClients clients with the most requests are kept, and as many with the most denials. For
	// each hour, these are hourClients of each. A node's History has less memory and keeps nodeClients for each minute.
	minuteClients, hourClients, nodeClients = 250, 500, 50
	// keptMinutes is the number of minutes for which clients are kept by the minute. Older ones are only kept by the hour.
	keptMinutes = 60
)

const (
	// ClientMinutes is how long clients are kept by the minute.
	ClientMinutes = keptMinutes * time.Minute
	// ClientLag is the age from which a minute's clients are considered complete, because all nodes should have reported
	// them.
	ClientLag = 5 * time.Second
)

// A ring has the counts of a rule by the second.
type ring struct {
	unix     [ringSeconds]int64
	counts   [ringSeconds][countFields]uint32
	lastUsed int64 // latest second with counts
}

// A nodeState is the state of a node's Reports.
type nodeState struct {
	started int64
	last    int64         // latest second that was added
	minute  int64         // the minute in which clients were counted
	clients []ClientCount // of a minute in progress; not yet in byMin and byHour
}

// A storedTime identifies the clients of an hour or minute that a process has stored.
type storedTime struct {
	unix   int64
	origin string
}

// A History merges the Reports of nodes. It is safe for concurrent use.
type History struct {
	options HistoryOptions

	mu         sync.Mutex
	rings      map[string]*ring
	open       map[int64]map[string]*Counts // by minute, then rule
	logs       map[string]*minuteLog        // closed minutes, by rule
	nodes      map[string]*nodeState
	byMin      map[int64]clientSums // clients of the last minutes
	byHour     map[int64]clientSums
	changed    map[int64]bool // minutes of byMin that were changed since the last call of ChangedMinutes
	lastClosed int64          // the latest minute that CloseMinutes has closed
	// Clients that were counted by other processes, or before this process started.
	storedMin, storedHour map[storedTime]clientSums

	bytes int
}

// NewHistory returns an empty History.
func NewHistory(o HistoryOptions) *History {
	o.Keep = cmp.Or(o.Keep, 7*24*time.Hour)
	o.MaxBytes = cmp.Or(o.MaxBytes, 48<<20)
	o.Clients = cmp.Or(o.Clients, ClientMinutes)
	if o.Namer == nil {
		o.Namer = NewNamer(Clear, nil)
	}
	return &History{
		options: o, rings: map[string]*ring{}, open: map[int64]map[string]*Counts{}, logs: map[string]*minuteLog{},
		nodes: map[string]*nodeState{}, byMin: map[int64]clientSums{}, byHour: map[int64]clientSums{},
		changed: map[int64]bool{}, storedMin: map[storedTime]clientSums{}, storedHour: map[storedTime]clientSums{},
	}
}

// Add adds a Report. It ignores seconds that were already added, that are older than ten minutes, or that are far in
// the future.
func (h *History) Add(r *Report, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.nodes[r.Node]
	if n == nil {
		if len(h.nodes) >= maxNodes {
			return
		}
		n = &nodeState{}
		h.nodes[r.Node] = n
	}
	if n.started != r.Started {
		h.mergeClients(n)
		*n = nodeState{started: r.Started}
	}
	for i := range r.Seconds {
		second := &r.Seconds[i]
		age := now.Unix() - second.Unix
		if second.Unix <= n.last || age >= ringSeconds || age < -maxAhead {
			continue
		}
		n.last = second.Unix
		for j := range second.Rows {
			h.addRow(second.Unix, &second.Rows[j])
		}
	}
	if r.Minute == 0 || r.Minute < n.minute || now.Unix()-r.Minute > 3600 {
		return
	}
	if r.Minute > n.minute {
		h.mergeClients(n)
		n.minute = r.Minute
	}
	n.clients = slices.Clone(r.Clients)
	if len(n.clients) > 2*maxReported { // those with the most requests and those with the most denials
		n.clients = n.clients[:2*maxReported]
	}
}

func (h *History) addRow(unix int64, row *Row) {
	if r := h.ringOf(row.Rule, unix); r != nil {
		r.add(unix, &row.Counts)
	}
	minute := unix - unix%60
	if minute <= h.lastClosed {
		minute = h.lastClosed + 60 // the report is late: count it in the first open minute
	}
	rules := h.open[minute]
	if rules == nil {
		rules = map[string]*Counts{}
		h.open[minute] = rules
	}
	sum := rules[row.Rule]
	if sum == nil {
		if len(rules) >= maxRules {
			return
		}
		sum = &Counts{}
		rules[row.Rule] = sum
	}
	sum.Add(&row.Counts)
}

// ringOf returns the ring of a rule. It creates the ring if needed, and returns nil if there are too many.
func (h *History) ringOf(rule string, unix int64) *ring {
	r := h.rings[rule]
	if r == nil && (len(h.rings) < maxRings || h.dropRing(unix)) {
		r = &ring{}
		h.rings[rule] = r
	}
	return r
}

// add adds counts to a second, unless a later second already uses its place in the ring.
func (r *ring) add(unix int64, c *Counts) {
	i := unix % ringSeconds
	if r.unix[i] > unix {
		return
	}
	if r.unix[i] < unix {
		r.unix[i], r.counts[i] = unix, [countFields]uint32{}
	}
	for f, n := range c.fields() {
		r.counts[i][f] += uint32(min(n, 1<<32-1))
	}
	r.lastUsed = max(r.lastUsed, unix)
}

// ringIdle is the time in seconds without requests after which a rule's ring may be dropped for another rule.
const ringIdle = 60

// dropRing drops the ring that was idle for the longest time. It returns false if none was idle for ringIdle.
func (h *History) dropRing(now int64) bool {
	oldest, lastUsed, found := "", now-ringIdle, false
	for rule, r := range h.rings {
		if r.lastUsed < lastUsed && rule != Total {
			oldest, lastUsed, found = rule, r.lastUsed, true
		}
	}
	if found {
		delete(h.rings, oldest)
	}
	return found
}

// mergeClients moves the clients of a node's minute to the clients of the fleet.
func (h *History) mergeClients(n *nodeState) {
	if len(n.clients) == 0 {
		return
	}
	h.changed[n.minute] = true
	h.addClients(n.minute, n.clients, h.byMin, h.clientsOfMinute())
	if h.options.Clients == ClientMinutes {
		h.addClients(n.minute-n.minute%3600, n.clients, h.byHour, hourClients)
	}
	n.clients = nil
}

// clientsOfMinute returns the number of clients that are kept for each minute.
func (h *History) clientsOfMinute() int {
	if h.options.Clients < ClientMinutes {
		return nodeClients
	}
	return minuteClients
}

// Sums are trimmed when they have more than trimAbove times as many clients as are kept. It is large because trimming
// sorts the clients.
const trimAbove = 16

// addClients adds the clients in list to the sums of the minute or hour unix, of which keep clients are kept.
func (h *History) addClients(unix int64, list []ClientCount, to map[int64]clientSums, keep int) {
	sums := to[unix]
	if sums == nil {
		sums = clientSums{}
		to[unix] = sums
	}
	for i := range list {
		sums.add(&list[i])
	}
	if len(sums) > trimAbove*keep {
		sums.trim(keep)
	}
}

// A Minute has the counts of all rules in one minute, in the form that is stored.
type Minute struct {
	Unix int64
	Rows []Row
}

// CloseMinutes closes the minutes to which reports no longer add, and returns them. It also drops old data. If all is
// true, it closes the minutes in progress, too, except those of clients.
func (h *History) CloseMinutes(now time.Time, all bool) []Minute {
	h.mu.Lock()
	defer h.mu.Unlock()
	until := now.Unix() - now.Unix()%60 - 60*(openMinutes-1)
	for _, n := range h.nodes {
		if n.minute < until {
			h.mergeClients(n)
		}
	}
	if all {
		until = now.Unix() + 3600
	}
	var list []Minute
	for _, minute := range slices.Sorted(maps.Keys(h.open)) {
		if minute >= until {
			break
		}
		m := Minute{Unix: minute}
		for rule, counts := range h.open[minute] {
			m.Rows = append(m.Rows, Row{rule, *counts})
			h.addToLog(minute, rule, counts)
		}
		delete(h.open, minute)
		h.lastClosed = max(h.lastClosed, minute)
		list = append(list, m)
	}
	for id, n := range h.nodes {
		if now.Unix()-n.last > 3600 && now.Unix()-n.minute > 3600 {
			delete(h.nodes, id)
		}
	}
	h.forget(now)
	return list
}

// OpenMinutes returns the current counts of the minutes to which reports may still add.
func (h *History) OpenMinutes() []Minute {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []Minute
	for _, minute := range slices.Sorted(maps.Keys(h.open)) {
		m := Minute{Unix: minute}
		for rule, counts := range h.open[minute] {
			m.Rows = append(m.Rows, Row{rule, *counts})
		}
		list = append(list, m)
	}
	return list
}

// Load adds a stored minute. It spreads the requests evenly over the seconds, because their counts were not stored.
func (h *History) Load(m Minute, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range m.Rows {
		row := &m.Rows[i]
		h.addToLog(m.Unix, row.Rule, &row.Counts)
		if now.Unix()-m.Unix >= ringSeconds {
			continue
		}
		if r := h.ringOf(row.Rule, m.Unix); r != nil {
			for s := range int64(60) {
				share := row.part(uint64(s), 60)
				r.add(m.Unix+s, &share)
			}
		}
	}
}

func (h *History) addToLog(minute int64, rule string, c *Counts) {
	l := h.logs[rule]
	if l == nil {
		l = &minuteLog{}
		h.logs[rule] = l
	}
	before := l.bytes
	l.add(minute, c)
	h.bytes += l.bytes - before
}

// forget drops data older than Keep. If the logs use more than MaxBytes, it drops the least active rules.
func (h *History) forget(now time.Time) {
	before := now.Add(-h.options.Keep).Unix()
	h.bytes = 0
	for rule, l := range h.logs {
		l.forget(before)
		if len(l.hours) == 0 {
			delete(h.logs, rule)
		}
		h.bytes += l.bytes
	}
	if h.bytes > h.options.MaxBytes {
		least := slices.SortedFunc(maps.Keys(h.logs), func(a, b string) int {
			return cmp.Compare(h.logs[a].sum, h.logs[b].sum)
		})
		for _, rule := range least {
			if h.bytes > h.options.MaxBytes*9/10 && rule != Total { // free a tenth more, to do this less often
				h.bytes -= h.logs[rule].bytes
				delete(h.logs, rule)
			}
		}
	}
	for minute := range h.byMin {
		if now.Unix()-minute > int64(h.options.Clients/time.Second) {
			delete(h.byMin, minute)
		} else {
			h.byMin[minute].trim(h.clientsOfMinute())
		}
	}
	maps.DeleteFunc(h.byHour, func(hour int64, _ clientSums) bool { return hour+3600 < before })
	maps.DeleteFunc(h.storedHour, func(at storedTime, _ clientSums) bool { return at.unix+3600 < before })
	maps.DeleteFunc(h.storedMin, func(at storedTime, _ clientSums) bool { return now.Unix()-at.unix > 60*keptMinutes })
	maps.DeleteFunc(h.changed, func(minute int64, _ bool) bool { return now.Unix()-minute > 60*keptMinutes })
}
