package traffic

import (
	"cmp"
	"context"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/telemetry/traffic/internal/seedhash"
)

// RecorderOptions configure a Recorder. Counters and Sink are required.
type RecorderOptions struct {
	// Counters returns the counters of all rules and of Total since the start. They have no costs and durations: the
	// Recorder counts these.
	Counters func() iter.Seq[Row]
	// Sink is called with a Report each second. It must not block, and may keep the Report.
	Sink func(*Report)
	// Node and Started are the fields of the Reports with these names.
	Node    string
	Started time.Time
	// Namer names clients. Default a Namer with the mode Clear and without a secret.
	Namer *Namer
	// MaxBytes is the maximum memory for clients. Default DefaultClientBytes.
	MaxBytes int
	// SampleBytes is the maximum memory for samples of requests. Default 6 MiB. There are no samples if it is negative.
	SampleBytes int
	// Now returns the time of sampled requests. Default time.Now.
	Now func() time.Time
}

// DefaultClientBytes is the default of RecorderOptions.MaxBytes.
const DefaultClientBytes = 6 << 20

// The sizes of tables, in clients. Each active rule has a table. If memory is short, the others share one.
const (
	minTable   = 64
	maxTable   = 4096
	sharedSize = 4096
)

// ruleStats are the statistics of a rule beyond the metrics.
type ruleStats struct {
	id      string
	rule    atomic.Pointer[rules.Rule]
	clients atomic.Pointer[table] // nil if it uses the shared table
	cost    atomic.Int64          // units beyond one per request
	timed   atomic.Uint64
	tookNS  atomic.Uint64
	oneIn   atomic.Uint32 // one request in oneIn is counted for its client; a power of two, or 0 for all requests

	fleet      uint64 // seed of the keys of its clients, the same on all nodes
	sampling   sampling
	overflowed atomic.Bool // too many requests of its clients are sampled

	used int64 // Unix time of its last request; only Tick uses it
}

// A ruleIndex finds the statistics of rules.
type ruleIndex struct {
	indexed []indexedRule
	byID    map[string]*ruleStats
}

type indexedRule struct {
	rule  *rules.Rule
	stats *ruleStats
}

func (x *ruleIndex) find(m *match.Result) *ruleStats {
	if m.Index < len(x.indexed) && x.indexed[m.Index].rule == m.Rule {
		return x.indexed[m.Index].stats
	}
	return x.byID[m.Rule.ID]
}

// A Recorder counts the decisions of a node. It is safe for concurrent use.
type Recorder struct {
	options RecorderOptions
	seed    uint64 // of tables
	index   atomic.Pointer[ruleIndex]
	shared  atomic.Pointer[table]
	cost    atomic.Int64 // of all requests, beyond one each
	timed   atomic.Uint64
	tookNS  atomic.Uint64
	sampler *sampler // nil if nothing is sampled

	mu     sync.Mutex // guards the fields below, and those of sampler
	last   map[string]Counts
	minute int64
	bytes  int // of all tables
	size   int // of new tables
	names  map[nameKey]RawClient

	removed []*ruleStats // rules that were removed in this minute
}

// NewRecorder returns a Recorder without rules.
func NewRecorder(o RecorderOptions) *Recorder {
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultClientBytes)
	if o.Namer == nil {
		o.Namer = NewNamer(Clear, nil)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Recorder{options: o, seed: rand.Uint64(), last: map[string]Counts{}, size: maxTable}
	r.index.Store(&ruleIndex{byID: map[string]*ruleStats{}})
	if o.Namer.names != Off {
		r.shared.Store(r.newTable(sharedSize))
		if o.SampleBytes = cmp.Or(o.SampleBytes, sampleBytes); o.SampleBytes > 0 {
			r.sampler = newSampler(o.Namer.seed(), o.SampleBytes, o.Now)
		}
	}
	return r
}

// newTable returns an empty table, or nil if there is no memory for it.
func (r *Recorder) newTable(size int) *table {
	if r.bytes+size*slotBytes > r.options.MaxBytes {
		return nil
	}
	r.bytes += size * slotBytes
	return newTable(r.seed, size)
}

// dropTable drops the table of a rule, if it has one.
func (r *Recorder) dropTable(stats *ruleStats) {
	if t := stats.clients.Swap(nil); t != nil {
		r.bytes -= len(t.slots) * slotBytes
	}
}

// SetRules sets the rules in force. A rule with the same id keeps its statistics.
func (r *Recorder) SetRules(list []*rules.Rule) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.index.Load()
	next := &ruleIndex{indexed: make([]indexedRule, len(list)), byID: make(map[string]*ruleStats, len(list))}
	for i, rule := range list {
		stats := old.byID[rule.ID]
		if stats == nil {
			stats = &ruleStats{id: rule.ID, fleet: seedhash.Sum(r.options.Namer.seed(), rule.ID)}
		}
		stats.rule.Store(rule)
		next.indexed[i], next.byID[rule.ID] = indexedRule{rule, stats}, stats
	}
	for id, stats := range old.byID {
		if next.byID[id] == nil {
			r.removed = append(r.removed, stats)
		}
	}
	r.index.Store(next)
	// Halve the size until there is memory for all tables, but for at most 400: other rules use the shared table.
	for r.size = maxTable; r.size > minTable && min(len(list), 400)*r.size*slotBytes > r.options.MaxBytes; {
		r.size /= 2
	}
}

// Observe counts a verdict. It is for engine.Config.Observe, and does not allocate.
func (r *Recorder) Observe(v *engine.Verdict) {
	index := r.index.Load()
	var c engine.ClientView
	limits := v.LimitCount()
	if limits == 0 && v.BlockedClient(&c) {
		r.observe(index, v, &c)
	}
	cost := int64(1)
	for i := 0; i < limits; {
		if i = v.ClientAt(i, &c); c.Checked {
			cost = max(cost, c.Cost)
			r.observe(index, v, &c)
		}
	}
	if cost != 1 {
		r.cost.Add(cost - 1)
	}
	if v.Duration > 0 {
		r.timed.Add(1)
		r.tookNS.Add(uint64(v.Duration))
	}
}

func (r *Recorder) observe(index *ruleIndex, v *engine.Verdict, c *engine.ClientView) {
	stats := index.find(c.Matched)
	if stats == nil {
		return // the rule was removed while the request was decided
	}
	if c.Cost != 1 {
		stats.cost.Add(c.Cost - 1)
	}
	if v.Duration > 0 {
		stats.timed.Add(1)
		stats.tookNS.Add(uint64(v.Duration))
	}
	t := stats.clients.Load()
	if t == nil {
		if t = r.shared.Load(); t == nil {
			return // clients: off
		}
	}
	key := seedhash.Sum(stats.fleet, c.Values)
	weight := uint32(0)
	if all := stats.oneIn.Load(); all <= 1 {
		weight = t.add(key, c, stats, 1)
	} else if rand.Uint32()&(all-1) == 0 {
		weight = t.add(key, c, stats, all)
	}
	if weight <= deniedWeight*maxPerMinute && stats.sampling.sampledNow(key) && r.sampler != nil {
		r.sample(t, key, weight, c, stats)
	}
}

// sample samples a request of a sampled client, unless the client has sent more than maxPerMinute. The weight is
// checked first: it is at least the number of requests, and needs no access to the table.
func (r *Recorder) sample(t *table, key uint64, weight uint32, c *engine.ClientView, stats *ruleStats) {
	if weight <= maxPerMinute || t.requests(key) <= maxPerMinute {
		r.sampler.put(stats, key, c)
	}
}

// Run calls Tick each second until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	for {
		now := time.Now()
		timer := time.NewTimer(now.Truncate(time.Second).Add(time.Second).Sub(now))
		select {
		case <-ctx.Done():
			timer.Stop()
			r.Tick(time.Now().Add(time.Second)) // the second in progress
			return
		case now = <-timer.C:
			r.Tick(now)
		}
	}
}

// clientsEvery is the interval in seconds at which Reports include clients.
const clientsEvery = 5

// Tick reports the second that ended before now.
func (r *Recorder) Tick(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	unix := now.Unix() - 1
	report := &Report{Node: r.options.Node, Started: r.options.Started.UnixMicro()}
	if rows := r.rows(unix); len(rows) > 0 {
		report.Seconds = []Second{{Unix: unix, Rows: rows}}
	}
	minute := unix - unix%60
	if r.minute == 0 {
		r.minute = minute
	}
	if r.sampler != nil {
		r.sampler.tick(unix)
		// The tables are those of r.minute until they are rotated.
		r.sampler.hold(unix, r.minute, r.tables(), r.shared.Load())
	}
	switch {
	case minute != r.minute:
		r.report(report)
		report = &Report{Node: report.Node, Started: report.Started, Minute: r.minute, Clients: r.rotate()}
		r.minute = minute
	case unix%clientsEvery == 0:
		report.Minute, report.Clients = minute, r.clients(false)
	}
	r.report(report)
}

// tables returns the tables of the minute that have clients.
func (r *Recorder) tables() []*table {
	var list []*table
	if t := r.shared.Load(); t != nil && t.used.Load() {
		list = append(list, t)
	}
	for _, stats := range r.index.Load().byID {
		if t := stats.clients.Load(); t != nil && t.used.Load() {
			list = append(list, t)
		}
	}
	return list
}

func (r *Recorder) report(report *Report) {
	if len(report.Seconds)+len(report.Clients) > 0 {
		r.options.Sink(report)
	}
}

// rows returns the counts since the last call. It also creates tables for active rules.
func (r *Recorder) rows(unix int64) []Row {
	var rows []Row
	index := r.index.Load()
	seen := make(map[string]Counts, len(r.last))
	for row := range r.options.Counters() {
		extra, timed, tookNS := r.cost.Load(), r.timed.Load(), r.tookNS.Load()
		stats := index.byID[row.Rule]
		if row.Rule != Total {
			extra, timed, tookNS = 0, 0, 0
			if stats != nil {
				extra, timed, tookNS = stats.cost.Load(), stats.timed.Load(), stats.tookNS.Load()
			}
		}
		row.Cost, row.Timed, row.TookNS = uint64(max(int64(row.Requests)+extra, 0)), timed, tookNS
		before := r.last[row.Rule]
		seen[row.Rule] = row.Counts
		delta := row.sub(&before)
		if delta.Requests == 0 {
			continue
		}
		rows = append(rows, Row{row.Rule, delta})
		if stats != nil {
			stats.used = unix
			stats.thin(delta.Requests)
			if r.shared.Load() != nil && stats.clients.Load() == nil {
				if t := r.newTable(r.size); t != nil {
					stats.clients.Store(t)
				}
			}
		}
	}
	r.last = seen
	return rows
}

// The rates of requests of a rule on a node, per second, from which only one request in 4 or 16 is counted for its
// client. A client with 1 % of the requests of a minute then has at least 30,000, counted with a standard deviation of
// 1 %.
const (
	oneIn4From  = 50_000
	oneIn16From = 500_000
	// busyMask is the minimum of sampling.mask at these rates: one client in 8 is sampled.
	busyMask = 7
)

// thin sets the share of requests that are counted for their clients in the next second. It is low at high rates, at
// which counting would take too much time.
func (s *ruleStats) thin(requests uint64) {
	t, oneIn := s.clients.Load(), uint32(1)
	switch {
	case t == nil: // other rules share its table
	case requests >= oneIn16From:
		oneIn = 16
	case requests >= oneIn4From:
		oneIn = 4
	}
	s.oneIn.Store(oneIn)
	if oneIn == 1 {
		return
	}
	t.oneIn.Store(max(oneIn, t.oneIn.Load()))
	for s.sampling.mask.Load() < busyMask {
		s.sampling.halve()
		s.markOverflowed()
	}
}
