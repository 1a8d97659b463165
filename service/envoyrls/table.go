package envoyrls

import (
	"errors"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

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
	exact map[entry]*node // by key and value; an empty value stands for every other value of its key
	// Descriptors with '*' in the value, by key, and those with '*' in the key; each list in the order of the file.
	wild     map[string][]pattern
	joined   []pattern
	patterns int // how many were added, for their order
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
	current   []byte           // current_limit of a status, on the wire; empty if it is unlimited
	metadata  *structpb.Struct // nil for none; must not be changed
	metric    *counter
}

// The suffixes of counters. Those of a unit are its number.
const (
	ownLimit = 'l'
	byRule   = 'r' // no counter: only tells equal descriptors
)

// compile turns documents into one table. Two documents may have the same domain only if merge is set; then they must not
// have the same descriptor at the top level. The error names both files.
func compile(docs []*Document, merge bool) (*table, error) {
	t := &table{domains: make(map[string]*level, len(docs))}
	first := make(map[string]*Document, len(docs))
	var failed []error
	for _, d := range docs {
		other := first[d.Domain]
		if other != nil && !merge {
			failed = append(failed, d.refuse("domain", rules.Quote(d.Domain),
				"each domain in one file, or merge_domains: true; "+other.place("domain")+" has this one"))
			continue
		}
		if other == nil {
			first[d.Domain], t.domains[d.Domain] = d, &level{}
		}
		if err := t.fill(t.domains[d.Domain], d, d.Descriptors, ""); err != nil {
			failed = append(failed, err)
		}
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

// fill adds descriptors of a document to a level. path is the label of the level in metrics.
func (t *table) fill(l *level, doc *Document, list []Descriptor, path string) error {
	if len(list) > 0 && l.exact == nil {
		l.exact = make(map[entry]*node, len(list))
	}
	for i := range list {
		d := &list[i]
		here := path + d.label()
		at := entry{d.Key, d.Value}
		if l.exact[at] != nil { // within one document, validate has refused it
			return doc.refuse("descriptors["+strconv.Itoa(i)+"]", d.label(), "each key and value once in a domain; another file has this one")
		}
		n := &node{pattern: d.Value, shared: d.ShareThreshold, valued: d.ValueToMetric}
		if r := d.rateLimit(); r != nil {
			n.limit = t.limit(d, r, doc.Domain, here)
		}
		l.exact[at] = n
		l.addPattern(d.Key, d.Value, n)
		if err := t.fill(&n.level, doc, d.Descriptors, here+"."); err != nil {
			return err
		}
	}
	return nil
}

func (d *Descriptor) rateLimit() *RateLimit {
	if d.RateLimit == nil && d.Limit != nil {
		return &RateLimit{Limit: d.Limit}
	}
	return d.RateLimit
}

func (t *table) limit(d *Descriptor, r *RateLimit, domain, path string) *limit {
	l := &limit{
		unlimited: r.Unlimited, shadow: d.ShadowMode, quota: d.QuotaMode, detailed: d.DetailedMetric, name: r.Name,
		metadata: d.Metadata,
		metric:   &counter{domain: domain, descriptor: path},
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
	t.limits = append(t.limits, l)
	return l
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

// next returns the node of an entry, nil for none: that of the same key and value, else the first pattern that matches, else
// that of the key alone.
func (l *level) next(e *entry) *node {
	if n := l.exact[*e]; n != nil && e.value != "" {
		return n
	}
	if n := l.match(e); n != nil {
		return n
	}
	return l.exact[entry{key: e.key}]
}
