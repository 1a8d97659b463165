package envoyrls

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/source"
)

// A table is a configuration made ready. It is immutable, but for its counters.
type table struct {
	domains map[string]*level
	limits  []*limit // all of them
	named   bool     // some replace others
}

// A level is what one entry of a descriptor is compared with.
type level struct {
	keys map[string]*choices // nil if nothing follows
}

// choices are what a key may be followed by.
type choices struct {
	exact map[string]*node
	begin []prefixed // in the order of the file
	any   *node      // nil for none
}

type prefixed struct {
	prefix string
	node   *node
}

// A node is where an entry leads.
type node struct {
	level
	limit   *limit // nil for none
	pattern string // of the value
	shared  bool   // the pattern stands for the value in keys
	valued  bool   // the value that a request has stands in the metric
}

// A limit is what applies to descriptors that end at a node.
type limit struct {
	counted   headgate.Limit // how; undefined if it is unlimited
	most      int64          // how many may pass; counted has at least 1
	suffix    byte           // tells counters of one descriptor apart
	unlimited bool
	shadow    bool
	quota     bool
	detailed  bool
	name      string
	replaces  []string
	current   []byte // current_limit of a status, on the wire; empty if it is unlimited
	metadata  []byte // google.protobuf.Struct, on the wire
	metric    *counter
}

// The suffixes of counters. Those of a unit are its number.
const ownLimit = 'l'

// compile makes documents ready as one. The error names the file of what is there twice.
func compile(docs []*Document) (*table, error) {
	t := &table{domains: make(map[string]*level, len(docs))}
	first := make(map[string]*Document, len(docs))
	var failed []error
	for _, d := range docs {
		if other := first[d.Domain]; other != nil {
			failed = append(failed, d.refuse("domain", rules.Quote(d.Domain), "each domain in one file; "+other.place("domain")+" has this one"))
			continue
		}
		first[d.Domain] = d
		l := &level{}
		if err := t.fill(l, d.Descriptors, d.Domain, ""); err != nil {
			failed = append(failed, err)
		}
		t.domains[d.Domain] = l
	}
	if failed != nil {
		return nil, errors.Join(failed...)
	}
	return t, nil
}

// refuse returns a complaint about a place of the document.
func (d *Document) refuse(path, value, want string) error {
	f := d.source()
	line, column := f.Locate(path)
	return f.Error([]source.Problem{{Path: path, Value: value, Want: want, Line: line, Column: column}}, 0, ErrInvalid)
}

// place names a place of the document to a reader of another.
func (d *Document) place(path string) string {
	line, _ := d.source().Locate(path)
	return d.source().Name + ":" + strconv.Itoa(line)
}

func (d *Document) source() *source.File {
	if d.file == nil {
		return &source.File{Name: "configuration"}
	}
	return d.file
}

func (t *table) fill(l *level, list []Descriptor, domain, path string) error {
	if len(list) > 0 {
		l.keys = make(map[string]*choices, len(list))
	}
	for i := range list {
		d := &list[i]
		here := path + d.label()
		n := &node{pattern: d.Value, shared: d.ShareThreshold, valued: d.ValueToMetric}
		if r := d.rateLimit(); r != nil {
			made, err := t.limit(d, r, domain, here)
			if err != nil {
				return err
			}
			n.limit = made
		}
		c := l.keys[d.Key]
		if c == nil {
			c = &choices{}
			l.keys[d.Key] = c
		}
		c.add(d.Value, n)
		if err := t.fill(&n.level, d.Descriptors, domain, here+"."); err != nil {
			return err
		}
	}
	return nil
}

func (c *choices) add(value string, n *node) {
	if value == "" {
		c.any = n
		return
	}
	if c.exact == nil {
		c.exact = make(map[string]*node)
	}
	c.exact[value] = n
	if prefix, ok := strings.CutSuffix(value, wildcard); ok {
		c.begin = append(c.begin, prefixed{prefix, n})
	}
}

func (d *Descriptor) rateLimit() *RateLimit {
	if d.RateLimit == nil && d.Limit != nil {
		return &RateLimit{Limit: d.Limit}
	}
	return d.RateLimit
}

func (t *table) limit(d *Descriptor, r *RateLimit, domain, path string) (*limit, error) {
	l := &limit{
		unlimited: r.Unlimited, shadow: d.ShadowMode, quota: d.QuotaMode, detailed: d.DetailedMetric, name: r.Name,
		metric: &counter{domain: domain, descriptor: path},
	}
	switch {
	case r.Limit != nil:
		l.counted, l.most, l.suffix = *r.Limit, r.Limit.Capacity(), ownLimit
		l.current = currentLimit(r.Name, uint32Of(r.Limit.Count), unitOf(r.Limit.Period), 0)
	case !r.Unlimited:
		l.perUnit(uint32(r.RequestsPerUnit), r.Unit, 1)
		l.current = currentLimit(r.Name, uint32(r.RequestsPerUnit), r.Unit, 0)
	}
	for _, replaced := range r.Replaces {
		l.replaces, t.named = append(l.replaces, replaced.Name), true
	}
	if d.Metadata != nil {
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(d.Metadata)
		if err != nil {
			return nil, err // it was made of text in UTF-8
		}
		l.metadata = data
	}
	t.limits = append(t.limits, l)
	return l, nil
}

// perUnit sets how much may pass in so many units, counted as other services of this protocol do. It is false if that is too
// long a time.
func (l *limit) perUnit(requests uint32, u Unit, times uint32) bool {
	period := u.Period()
	if int64(times) > int64(headgate.MaxPeriod/period) {
		return false
	}
	l.most, l.suffix = int64(requests), byte(u)
	l.counted = headgate.Limit{
		Algorithm: headgate.FixedWindow,
		Count:     max(1, l.most), // nothing may pass if it is 0, but what tried is counted all the same
		Period:    time.Duration(int64(period) * int64(max(1, times))),
	}
	return true
}

// match returns the limit of a descriptor, nil if it has none. nodes gets where its entries led.
func (t *table) match(domain string, entries []entry, nodes []*node) (*limit, []*node) {
	nodes = nodes[:0]
	l := t.domains[domain]
	if l == nil {
		return nil, nodes
	}
	for i := range entries {
		n := l.next(&entries[i])
		if n == nil {
			return nil, nodes
		}
		nodes = append(nodes, n)
		l = &n.level
	}
	if len(nodes) == 0 {
		return nil, nodes
	}
	return nodes[len(nodes)-1].limit, nodes
}

// next returns where an entry leads, nil if nowhere.
func (l *level) next(e *entry) *node {
	c := l.keys[e.key]
	if c == nil {
		return nil
	}
	if n := c.exact[e.value]; n != nil {
		return n
	}
	for i := range c.begin {
		if strings.HasPrefix(e.value, c.begin[i].prefix) {
			return c.begin[i].node
		}
	}
	return c.any
}
