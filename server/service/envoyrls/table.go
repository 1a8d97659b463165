package envoyrls

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
)

// A table is a compiled configuration. It is immutable except for its counters.
type table struct {
	domains     map[string]*level
	limits      []*limit // all of them
	hasReplaces bool     // some limits replace others
}

// A level has the descriptors that one entry of a request is matched with.
type level struct {
	exact map[entry]*node // by key and value; an empty value matches all other values of its key
	// valuePatterns are patterns with '*' in the value, by key, and keyPatterns those with '*' in the key. Each list is
	// in the order of the file.
	valuePatterns map[string][]pattern
	keyPatterns   []pattern
	patterns      int // number of patterns added
}

// A node is the match of one entry.
type node struct {
	level
	limit         *limit // nil for none
	pattern       string // the value in the file, or key and value if the key contains '*'
	sharesCounter bool   // the pattern replaces the value in counter keys
	valueInMetric bool   // the value from the request is part of the metric's name
}

// A limit applies to descriptors that end at a node.
type limit struct {
	storeLimit headgate.Limit // the limit given to the store; undefined if unlimited
	max        int64          // number of allowed hits; may be 0, unlike storeLimit.Count
	suffix     byte           // distinguishes counters of one descriptor
	unlimited  bool
	shadow     bool
	quota      bool
	detailed   bool
	name       string
	replaces   []string
	current    []byte           // encoded current_limit of the status; empty if unlimited
	metadata   *structpb.Struct // nil for none; read-only
	counter    *counter
}

// The suffixes of counter keys. The suffix of a Unit is its number.
const (
	limitSuffix = 'l'
	ruleSuffix  = 'r' // for keys that only identify equal descriptors, not counters
)

// compile compiles documents into one table. If merge is set, several documents may have the same domain, but not the
// same descriptor at the top level. Errors about duplicates name both files.
func compile(docs []*Document, merge bool) (*table, error) {
	t := &table{domains: make(map[string]*level, len(docs))}
	first := make(map[string]*Document, len(docs))
	var errs []error
	for _, d := range docs {
		other := first[d.Domain]
		if other != nil && !merge {
			errs = append(errs, d.refuse("domain", rules.Quote(d.Domain),
				"each domain in one file, or merge_domains: true; "+other.location("domain")+" has the same domain"))
			continue
		}
		if other == nil {
			first[d.Domain], t.domains[d.Domain] = d, &level{}
		}
		if err := t.fill(t.domains[d.Domain], d, d.Descriptors, ""); err != nil {
			errs = append(errs, err)
		}
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return t, nil
}

// refuse returns an error about a position in the document.
func (d *Document) refuse(path, value, want string) error {
	f := d.source()
	line, column := f.Locate(path)
	return f.Error([]source.Problem{{Path: path, Value: value, Want: want, Line: line, Column: column}}, 0, ErrInvalid)
}

// location returns a position of the document as file:line.
func (d *Document) location(path string) string {
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
		label := path + d.label()
		key := entry{d.Key, d.Value}
		if l.exact[key] != nil { // within one document, validate has refused it
			return doc.refuse("descriptors["+strconv.Itoa(i)+"]", d.label(),
				"each key and value once in a domain; another file has the same")
		}
		n := &node{pattern: d.Value, sharesCounter: d.ShareThreshold, valueInMetric: d.ValueToMetric}
		if strings.Contains(d.Key, wildcard) {
			n.pattern = d.label()
		}
		if r := d.rateLimit(); r != nil {
			n.limit = t.newLimit(d, r, doc.Domain, label)
		}
		l.exact[key] = n
		l.addPattern(d.Key, d.Value, n)
		if err := t.fill(&n.level, doc, d.Descriptors, label+"."); err != nil {
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

func (t *table) newLimit(d *Descriptor, r *RateLimit, domain, path string) *limit {
	l := &limit{
		unlimited: r.Unlimited, shadow: d.ShadowMode, quota: d.QuotaMode, detailed: d.DetailedMetric, name: r.Name,
		metadata: d.Metadata,
		counter:  &counter{domain: domain, descriptor: path},
	}
	switch {
	case r.Limit != nil:
		l.storeLimit, l.max, l.suffix = *r.Limit, r.Limit.Capacity(), limitSuffix
		l.current = currentLimit(r.Name, uint32Of(r.Limit.Count), unitOf(r.Limit.Period), 0)
	case !r.Unlimited:
		l.setPerUnit(uint32(r.RequestsPerUnit), r.Unit, 1)
		l.current = currentLimit(r.Name, uint32(r.RequestsPerUnit), r.Unit, 0)
	}
	for _, replaced := range r.Replaces {
		l.replaces, t.hasReplaces = append(l.replaces, replaced.Name), true
	}
	t.limits = append(t.limits, l)
	return l
}

// setPerUnit sets a limit of requests in a period of several units. It counts in fixed windows, like other services
// with this protocol. It returns false if the period is too long.
func (l *limit) setPerUnit(requests uint32, u Unit, times uint32) bool {
	period := u.Period()
	if int64(times) > int64(headgate.MaxPeriod/period) {
		return false
	}
	l.max, l.suffix = int64(requests), byte(u)
	l.storeLimit = headgate.Limit{
		Algorithm: headgate.FixedWindow,
		Count:     max(1, l.max), // limits of stores must be at least 1; see outcome.over for a limit of 0
		Period:    time.Duration(int64(period) * int64(max(1, times))),
	}
	return true
}

// match returns the limit of a descriptor, or nil if it has none. It also returns the nodes of the descriptor's
// entries, in the memory of nodes.
func (t *table) match(domain string, entries []entry, nodes []*node) (*limit, []*node) {
	nodes = nodes[:0]
	l := t.domains[domain]
	if l == nil {
		return nil, nodes
	}
	for i := range entries {
		n := l.find(&entries[i])
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

// find returns the node of an entry, or nil if there is none. It prefers the node with the same key and value, then the
// node of the first pattern that matches, and then the node that has only the key.
func (l *level) find(e *entry) *node {
	if n := l.exact[*e]; n != nil && e.value != "" {
		return n
	}
	if n := l.match(e); n != nil {
		return n
	}
	return l.exact[entry{key: e.key}]
}
