// Package decisionlog keeps the last decisions of a node, so that an operator can see what happened to a client.
package decisionlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

const (
	defaultSize      = 8192
	defaultPerSecond = 200
	// maxValues is the maximum length of a client's values in bytes. Longer values are cut and get a hash.
	maxValues = 96
	// maxShift limits ring.mask, which is doubled only while it is below 1<<maxShift.
	maxShift = 24
	// maxNames is the number of rules from which Log.names is cleared, because it may have many removed rules.
	maxNames = 20_000
)

// Options configure a Log. Namer is required.
type Options struct {
	// Namer names clients.
	Namer *traffic.Namer
	// Node is the node of the decisions.
	Node string
	// Size is the number of decisions that are kept for admitted requests, and also the number for denied requests.
	// Default 8192.
	Size int
	// PerSecond is the maximum number of admitted requests that are recorded each second, and also of denied requests. If
	// there are more, a random sample is recorded. Default 200.
	PerSecond int
	// Now returns the time. Default time.Now.
	Now func() time.Time
}

// A Log has the last decisions of a node. Denied requests have their own ring, because admitted requests would replace
// them. It is safe for concurrent use.
type Log struct {
	options        Options
	passed, denied ring

	mu    sync.Mutex // guards names and the entries of both rings
	names map[string]ruleName
}

// A ring has the last decisions of one kind.
type ring struct {
	left    atomic.Int64  // requests that may still be recorded in this second
	mask    atomic.Uint32 // one request in mask+1 is recorded
	entries []entry
	next    int // index of the next entry to replace, the oldest; used when the ring is full
}

// An entry is a decision of a rule. It has no pointer to the rule, which would keep the whole set of rules in memory.
type entry struct {
	at         int64 // µs
	rule       *keyedRule
	limit      headgate.Limit
	remaining  int64
	retryAfter time.Duration
	delay      time.Duration
	cost       int64
	oneIn      uint32
	verdict    verdict
	degraded   bool
	byIP       bool
	cut        bool // values are cut, and hash is the hash of all values
	size       uint8
	values     [maxValues]byte
	hash       [8]byte
}

// A keyedRule is the id of a rule and the attributes of its clients.
type keyedRule struct {
	id         string
	attributes []headgate.Attribute
}

// A ruleName is the latest rule with an ID, and its keyedRule.
type ruleName struct {
	rule *rules.Rule
	*keyedRule
}

type verdict uint8

const (
	allow verdict = iota
	delay
	reject
	drop
	block
	shadow
)

var verdictNames = [...]string{
	allow: "allow", delay: "delay", reject: "reject", drop: "drop", block: "block", shadow: "shadow",
}

// New returns an empty Log.
func New(o Options) *Log {
	if o.Size == 0 {
		o.Size = defaultSize
	}
	if o.PerSecond == 0 {
		o.PerSecond = defaultPerSecond
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Log{options: o, names: map[string]ruleName{}}
	for _, r := range []*ring{&l.passed, &l.denied} {
		r.left.Store(int64(o.PerSecond))
		r.entries = make([]entry, 0, o.Size)
	}
	return l
}

// Observe records a verdict. It is for engine.Config.Observe.
func (l *Log) Observe(v *engine.Verdict) {
	r := &l.passed
	if !v.PlainAllow() && anyDenied(v) {
		r = &l.denied
	}
	if r.left.Load() <= 0 {
		return
	}
	mask := r.mask.Load()
	if mask != 0 && rand.Uint32()&mask != 0 || r.left.Add(-1) < 0 {
		return
	}
	l.record(r, v, mask)
}

// anyDenied reports whether a rule denies the request or, as a shadow rule, would have.
func anyDenied(v *engine.Verdict) bool {
	if !v.Action.Passes() {
		return true
	}
	for i := range v.LimitCount() {
		if d := v.LimitAt(i).Decision; d.Limit != 0 && !d.Allowed {
			return true
		}
	}
	return false
}

func (l *Log) record(r *ring, v *engine.Verdict, mask uint32) {
	e := entry{at: l.options.Now().UnixMicro()}
	if mask > 0 {
		e.oneIn = mask + 1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var c engine.ClientView
	limits := v.LimitCount()
	if limits == 0 && v.BlockedClient(&c) {
		e.verdict = block
		e.retryAfter = v.RetryAfter
		l.add(r, &e, &c)
		return
	}
	for from := 0; from < limits; {
		to := v.ClientAt(from, &c)
		if c.Checked {
			e.setDecision(v, from, to, &c)
			l.add(r, &e, &c)
		}
		from = to
	}
}

// setDecision sets the fields of a decision from the limits of its rule, which have the indexes from ≤ i < to.
func (e *entry) setDecision(v *engine.Verdict, from, to int, c *engine.ClientView) {
	var tightest headgate.Decision
	e.degraded = false
	for i := from; i < to; i++ {
		at := v.LimitAt(i)
		if at.Decision.Limit == 0 {
			continue
		}
		e.degraded = e.degraded || at.Decision.Degraded
		if tightest.Limit == 0 || tighter(at.Decision, &tightest) {
			tightest, e.limit = *at.Decision, at.Matched.Limit(at.Limit).Limit
		}
	}
	e.remaining, e.retryAfter, e.delay, e.cost = tightest.Remaining, tightest.RetryAfter, 0, c.Cost
	switch {
	case c.Denied && c.Shadow:
		e.verdict = shadow
	case c.Denied && v.Action == engine.Drop:
		e.verdict = drop
	case c.Denied:
		e.verdict = reject
	case v.Action == engine.Delay && v.Rule == c.Matched.Rule:
		e.verdict, e.delay = delay, v.Delay
	default:
		e.verdict = allow
	}
}

func tighter(a, b *headgate.Decision) bool {
	if a.Allowed != b.Allowed {
		return !a.Allowed
	}
	if !a.Allowed {
		return b.RetryAfter != headgate.Never && (a.RetryAfter == headgate.Never || a.RetryAfter > b.RetryAfter)
	}
	return a.Remaining < b.Remaining
}

// add adds a copy of an entry with its client.
func (l *Log) add(r *ring, e *entry, c *engine.ClientView) {
	e.rule, e.byIP = l.nameOf(c.Matched.Rule), c.Matched.ByIP()
	e.size, e.cut = uint8(copy(e.values[:], c.Values)), len(c.Values) > maxValues
	if e.cut {
		sum := sha256.Sum256(unsafe.Slice(unsafe.StringData(c.Values), len(c.Values))) // without a copy
		copy(e.hash[:], sum[:])
	}
	if len(r.entries) < l.options.Size {
		r.entries = append(r.entries, *e)
		return
	}
	r.entries[r.next] = *e
	r.next = (r.next + 1) % len(r.entries)
}

// nameOf returns the id and key of a rule.
func (l *Log) nameOf(rule *rules.Rule) *keyedRule {
	known := l.names[rule.ID]
	if known.rule == rule {
		return known.keyedRule
	}
	if len(l.names) >= maxNames {
		clear(l.names)
	}
	name := &keyedRule{id: strings.Clone(rule.ID), attributes: match.KeyAttributes(rule, false)}
	l.names[name.id] = ruleName{rule, name}
	return name
}

// Run calls Tick each second until ctx ends.
func (l *Log) Run(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			l.Tick()
		}
	}
}

// Tick begins a new second and adjusts the sampling rate.
func (l *Log) Tick() {
	for _, r := range []*ring{&l.passed, &l.denied} {
		most := int64(l.options.PerSecond)
		left := r.left.Swap(most)
		switch mask := r.mask.Load(); {
		case left <= 0 && mask < 1<<maxShift:
			r.mask.Store(mask<<1 | 1)
		case left > most*3/4: // less than a quarter was used, so there is room for twice the sampling rate
			r.mask.Store(mask >> 1)
		}
	}
}

// Find returns the decisions that a query selects, latest first.
func (l *Log) Find(q traffic.DecisionsQuery) []traffic.Decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []traffic.Decision
	l.appendFound(&l.denied, &q, &list)
	if !q.Denied {
		l.appendFound(&l.passed, &q, &list)
		slices.SortStableFunc(list, func(a, b traffic.Decision) int { return b.Time.Compare(a.Time) })
	}
	return list[:min(len(list), q.Limit)]
}

// appendFound appends at most q.Limit decisions of a ring, the latest first.
func (l *Log) appendFound(r *ring, q *traffic.DecisionsQuery, list *[]traffic.Decision) {
	found := 0
	for i := range r.entries {
		e := &r.entries[(r.next+len(r.entries)-1-i)%len(r.entries)]
		if q.Rule != "" && e.rule.id != q.Rule || q.Denied && !e.denies() {
			continue
		}
		client := l.client(e)
		if len(q.Client) > 0 && !client.Agrees(q.Client) {
			continue
		}
		*list = append(*list, l.decision(e, client))
		if found++; found == q.Limit {
			return
		}
	}
}

// denies reports whether the rule denied the request or would have. A request that another rule denied is also in the
// ring of denied requests.
func (e *entry) denies() bool { return e.verdict != allow && e.verdict != delay }

func (l *Log) client(e *entry) traffic.RawClient {
	attributes := e.rule.attributes
	if e.byIP {
		attributes = []headgate.Attribute{{Kind: headgate.AttrIP}}
	}
	hash := ""
	if e.cut {
		hash = hex.EncodeToString(e.hash[:])
	}
	return l.options.Namer.Name(attributes, string(e.values[:e.size]), hash)
}

func (l *Log) decision(e *entry, client traffic.RawClient) traffic.Decision {
	d := traffic.Decision{
		Time: time.UnixMicro(e.at).UTC(), Node: l.options.Node, Client: client, Rule: e.rule.id,
		Verdict:   verdictNames[e.verdict],
		Remaining: e.remaining, DelayMS: e.delay.Milliseconds(), Cost: e.cost, Degraded: e.degraded, OneIn: e.oneIn,
	}
	if e.limit.Count != 0 {
		d.Limit = e.limit.String()
	}
	switch {
	case e.retryAfter == headgate.Never:
		d.RetryAfterMS = -1
	case e.retryAfter > 0:
		d.RetryAfterMS = max(1, e.retryAfter.Milliseconds())
	}
	return d
}

// Erase removes the decisions about clients.
func (l *Log) Erase(clients ...traffic.ErasedClient) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range []*ring{&l.passed, &l.denied} {
		left := make([]entry, 0, l.options.Size)
		for i := range r.entries {
			e := &r.entries[(r.next+i)%len(r.entries)]
			if !l.options.Namer.IsErased(l.client(e), clients) {
				left = append(left, *e)
			}
		}
		r.entries, r.next = left, 0
	}
}
