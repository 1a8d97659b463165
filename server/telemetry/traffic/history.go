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
	// Keep is how long minutes are kept. Default 7 days.
	Keep time.Duration
	// MaxBytes is the maximum memory for minutes. Above it, the least active rules are dropped. Default 48 MiB.
	MaxBytes int
	// Namer must hide values in the same way as the Namer of the nodes, otherwise a search does not find hidden values.
	// Default a Namer without a secret.
	Namer *Namer
}

// OwnKeep and OwnBytes are Keep and MaxBytes of a node's History of its own requests.
const (
	OwnKeep  = 24 * time.Hour
	OwnBytes = 3 << 20
)

const (
	// ringSeconds is the number of seconds that are kept: ten minutes, and some more for reports that arrive late.
	ringSeconds = 640
	// maxRings is the number of rules whose seconds are kept.
	maxRings = 200
	// openMinutes is the number of minutes that reports may still add to.
	openMinutes = 2
	// maxNodes is the maximum number of nodes of a History. Reports of others are ignored.
	maxNodes = 10_000
	// maxRules is the maximum number of rules in a minute. Others are ignored.
	maxRules = 20_000
	// minuteClients and hourClients are how many clients with the most requests, and how many with the most denials, are
	// kept for a minute and for an hour.
	minuteClients, hourClients = 250, 500
	// keptMinutes is the number of minutes for which clients are kept by the minute. Older ones are only kept by the hour.
	keptMinutes = 60
)

// A ring has the counts of a rule by the second.
type ring struct {
	unix [ringSeconds]int64
	list [ringSeconds][countFields]uint32
	used int64 // latest second with counts
}

// A nodeState is the state of a node's Reports.
type nodeState struct {
	started int64
	last    int64         // latest second that was added
	minute  int64         // minute of clients
	clients []ClientCount // of a minute in progress; not yet in byMin and byHour
}

// A storedHour identifies the clients of an hour that a process has stored.
type storedHour struct {
	hour   int64
	origin string
}

// A History merges the Reports of nodes. It is safe for concurrent use.
type History struct {
	options HistoryOptions

	mu      sync.Mutex
	rings   map[string]*ring
	open    map[int64]map[string]*Counts // by minute, then rule
	minutes map[string]*minuteLog
	nodes   map[string]*nodeState
	byMin   map[int64]clientSums // clients of the last minutes
	byHour  map[int64]clientSums
	stored  map[storedHour]clientSums // clients of other processes, or of this one before its start
	closed  int64                     // the latest minute that is in minutes
	bytes   int
}

// NewHistory returns an empty History.
func NewHistory(o HistoryOptions) *History {
	o.Keep = cmp.Or(o.Keep, 7*24*time.Hour)
	o.MaxBytes = cmp.Or(o.MaxBytes, 48<<20)
	if o.Namer == nil {
		o.Namer = NewNamer(Clear, nil)
	}
	return &History{
		options: o, rings: map[string]*ring{}, open: map[int64]map[string]*Counts{}, minutes: map[string]*minuteLog{},
		nodes: map[string]*nodeState{}, byMin: map[int64]clientSums{}, byHour: map[int64]clientSums{},
		stored: map[storedHour]clientSums{},
	}
}

// Add adds a Report. Seconds that were already added, or that are older than ten minutes, are ignored.
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
		if second.Unix <= n.last || age >= ringSeconds || age < -ringSeconds/2 {
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
	if len(n.clients) > 2*maxReported {
		n.clients = n.clients[:2*maxReported]
	}
}

func (h *History) addRow(unix int64, row *Row) {
	if at := h.ringOf(row.Rule, unix); at != nil {
		at.add(unix, &row.Counts)
	}
	minute := unix - unix%60
	if minute <= h.closed {
		minute = h.closed + 60 // the report is late: count it in the first open minute
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
	at := h.rings[rule]
	if at == nil && (len(h.rings) < maxRings || h.dropRing(unix)) {
		at = &ring{}
		h.rings[rule] = at
	}
	return at
}

// add adds counts to a second, unless a later second already uses its place in the ring.
func (r *ring) add(unix int64, c *Counts) {
	i := unix % ringSeconds
	if r.unix[i] > unix {
		return
	}
	if r.unix[i] < unix {
		r.unix[i], r.list[i] = unix, [countFields]uint32{}
	}
	for f, n := range c.fields() {
		r.list[i][f] += uint32(min(n, 1<<32-1))
	}
	r.used = max(r.used, unix)
}

// ringIdle is the time in seconds without requests after which a rule's ring may be dropped for another rule.
const ringIdle = 60

// dropRing drops the ring that was idle for the longest time. It returns false if none was idle for ringIdle.
func (h *History) dropRing(now int64) bool {
	oldest, used := Total, now-ringIdle
	for rule, r := range h.rings {
		if r.used < used && rule != Total {
			oldest, used = rule, r.used
		}
	}
	if oldest == Total {
		return false
	}
	delete(h.rings, oldest)
	return true
}

// mergeClients moves the clients of a node's minute to the clients of the fleet.
func (h *History) mergeClients(n *nodeState) {
	if len(n.clients) == 0 {
		return
	}
	h.addClients(n.minute, n.clients, h.byMin, minuteClients)
	h.addClients(n.minute-n.minute%3600, n.clients, h.byHour, hourClients)
	n.clients = nil
}

// trimAbove is the multiple of the kept clients above which they are trimmed. It is large because trimming sorts them.
const trimAbove = 16

func (h *History) addClients(at int64, list []ClientCount, to map[int64]clientSums, most int) {
	sums := to[at]
	if sums == nil {
		sums = clientSums{}
		to[at] = sums
	}
	for i := range list {
		sums.add(&list[i])
	}
	if len(sums) > trimAbove*most {
		sums.trim(most)
	}
}

// A Minute has the rows of a minute, to be stored.
type Minute struct {
	Unix int64
	Rows []Row
}

// Close closes and returns the minutes to which reports no longer add, and drops old data. If all is true, it also
// closes the minutes in progress.
func (h *History) Close(now time.Time, all bool) []Minute {
	h.mu.Lock()
	defer h.mu.Unlock()
	until := now.Unix() - now.Unix()%60 - 60*(openMinutes-1)
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
			h.store(minute, rule, counts)
		}
		delete(h.open, minute)
		h.closed = max(h.closed, minute)
		list = append(list, m)
	}
	for id, n := range h.nodes {
		if all || n.minute < until {
			h.mergeClients(n)
		}
		if now.Unix()-n.last > 3600 && now.Unix()-n.minute > 3600 {
			delete(h.nodes, id)
		}
	}
	h.forget(now)
	return list
}

// Open returns the current counts of the minutes to which reports may still add.
func (h *History) Open() []Minute {
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
		h.store(m.Unix, row.Rule, &row.Counts)
		if now.Unix()-m.Unix >= ringSeconds {
			continue
		}
		if at := h.ringOf(row.Rule, m.Unix); at != nil {
			for s := range int64(60) {
				share := row.part(uint64(s), 60)
				at.add(m.Unix+s, &share)
			}
		}
	}
}

func (h *History) store(minute int64, rule string, c *Counts) {
	l := h.minutes[rule]
	if l == nil {
		l = &minuteLog{}
		h.minutes[rule] = l
	}
	before := l.bytes
	l.add(minute, c)
	h.bytes += l.bytes - before
}

// forget drops data older than Keep. If the minutes use more than MaxBytes, it drops the least active rules.
func (h *History) forget(now time.Time) {
	before := now.Add(-h.options.Keep).Unix()
	h.bytes = 0
	for rule, l := range h.minutes {
		if l.forget(before); len(l.hours) == 0 {
			delete(h.minutes, rule)
		}
		h.bytes += l.bytes
	}
	if h.bytes > h.options.MaxBytes {
		least := slices.SortedFunc(maps.Keys(h.minutes), func(a, b string) int {
			return cmp.Compare(h.minutes[a].sum, h.minutes[b].sum)
		})
		for _, rule := range least {
			if h.bytes > h.options.MaxBytes*9/10 && rule != Total { // free a tenth more, to do this less often
				h.bytes -= h.minutes[rule].bytes
				delete(h.minutes, rule)
			}
		}
	}
	for minute := range h.byMin {
		if now.Unix()-minute > 60*keptMinutes {
			delete(h.byMin, minute)
		} else {
			h.byMin[minute].trim(minuteClients)
		}
	}
	maps.DeleteFunc(h.byHour, func(hour int64, _ clientSums) bool { return hour+3600 < before })
	maps.DeleteFunc(h.stored, func(at storedHour, _ clientSums) bool { return at.hour+3600 < before })
}
