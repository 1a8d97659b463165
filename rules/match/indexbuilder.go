package match

import (
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/internal/pattern"
	"github.com/headgate/headgate/rules/internal/yield"
)

// maxUnindexed is the largest number of conditions for which no index is built: evaluating them one by one is faster.
const maxUnindexed = 4

// maxUnindexedPatterns is the largest number of patterns of an attribute that are not indexed if an index could find
// them only by their end or by a text in them, which is slow.
const maxUnindexedPatterns = 8

// maxHostPathKeys is the largest number of combinations of a host and a path under which one condition is indexed.
const maxHostPathKeys = 256

// newIndex returns an index of conditions. For each condition it also returns the part that must be evaluated when the
// index has found the condition. The rank of a condition is its position in the list. extraTests[rank] are tests that
// must hold in addition to a condition; extraTests may be nil.
func newIndex(
	conditions []*rules.Condition, extraTests [][]compiledTest, comp *compiler,
) (*index, []compiledCondition) {
	b := indexBuilder{
		compiler:           comp,
		conds:              make([]compiledCondition, len(conditions)),
		counts:             make(map[indexKey]int, len(conditions)),
		analyses:           make(map[*rules.Condition]analysis, len(conditions)),
		values:             map[int]map[string][]hit{},
		hosts:              map[string]*trie{},
		lastSegments:       map[string][]hit{},
		rootedLastSegments: map[string][]hit{},
		present:            map[int][]hit{},
		patterns:           map[int]*trie{},
		suffixes:           map[int]*trie{},
		substrings:         map[int]*trie{},
		substringHits:      map[int][]hit{},
		index:              &index{paths: noNode},
	}
	var work yield.Yielder
	indexed := len(conditions) > maxUnindexed
	if indexed {
		for _, c := range conditions {
			work.Step()
			b.count(c)
		}
	}
	for rank, c := range conditions {
		work.Step()
		set := keySet{}
		if indexed {
			set, _ = b.bestKeys(c)
		}
		b.conds[rank] = comp.compileCondition(c, set.implied)
		if extraTests != nil {
			b.conds[rank].tests = append(b.conds[rank].tests, extraTests[rank]...)
		}
		h := newHit(int32(rank), b.conds[rank].empty())
		if set.keys == nil {
			b.index.unindexed = append(b.index.unindexed, h)
		}
		for _, k := range set.keys {
			b.add(k, h)
		}
	}
	b.finish()
	return b.index, b.conds
}

// An indexBuilder collects the content of an index. The keys of maps with integer keys are the numbers of attributes.
type indexBuilder struct {
	compiler           *compiler
	conds              []compiledCondition
	counts             map[indexKey]int // number of conditions that could be indexed under a key, by indexKey.indexed
	analyses           map[*rules.Condition]analysis
	values             map[int]map[string][]hit
	hosts              map[string]*trie
	lastSegments       map[string][]hit
	rootedLastSegments map[string][]hit
	present            map[int][]hit
	patterns           map[int]*trie
	suffixes           map[int]*trie
	substrings         map[int]*trie
	substringHits      map[int][]hit
	index              *index
}

// keysOf returns the set of the keys that find a test by a part of its patterns.
func keysOf(attr int, t *rules.Test, part patternPart) keySet {
	keys, proven := testKeys(attr, t, part)
	set := keySet{keys: keys}
	if proven {
		set.implied = []*rules.Test{t}
	}
	return set
}

// flatten splits a condition into tests and groups of conditions. All tests must hold, and at least one condition of
// each group must be true. It omits conditions in Not, which cannot be indexed.
func flatten(c *rules.Condition) (tests []*rules.Test, groups [][]rules.Condition) {
	for i := range c.Tests {
		tests = append(tests, &c.Tests[i])
	}
	below := c.All
	if len(c.Any) == 1 {
		below = append(below[:len(below):len(below)], c.Any[0])
	} else if len(c.Any) > 1 {
		groups = append(groups, c.Any)
	}
	for i := range below {
		t, g := flatten(&below[i])
		tests, groups = append(tests, t...), append(groups, g...)
	}
	return tests, groups
}

// An analysis lists the ways in which a condition can be indexed. One way is the keys of one of the sets. Another is
// the keys of all conditions of one of the groups.
type analysis struct {
	sets   []keySet
	groups [][]rules.Condition // at least one condition of each group must be true
}

// analyze returns the ways in which a condition can be indexed. It analyzes each condition once.
func (b *indexBuilder) analyze(c *rules.Condition) analysis {
	cached, ok := b.analyses[c]
	if !ok {
		tests, groups := flatten(c)
		cached = analysis{b.sets(tests), groups}
		b.analyses[c] = cached
	}
	return cached
}

// sets returns the key sets under which a condition with these tests can be indexed. Each set alone is sufficient.
func (b *indexBuilder) sets(tests []*rules.Test) []keySet {
	var sets []keySet
	var hosts, paths keySet
	for _, t := range tests {
		attr := b.compiler.number(t.Attribute)
		for _, part := range []patternPart{partEnd, partLongest} {
			if set := keysOf(attr, t, part); set.keys != nil {
				sets = append(sets, set)
			}
		}
		set := keysOf(attr, t, partStart)
		if set.keys == nil {
			continue
		}
		switch {
		case t.Attribute.Kind == headgate.AttrHost && hosts.keys == nil:
			hosts = set
		case attr == attrPath && paths.keys == nil:
			paths = set
		default:
			sets = append(sets, set)
		}
	}
	switch {
	case paths.keys == nil && hosts.keys != nil:
		sets = append(sets, hosts)
	case hosts.keys == nil && paths.keys != nil, len(hosts.keys)*len(paths.keys) > maxHostPathKeys:
		sets = append(sets, paths)
	case paths.keys != nil:
		sets = append(sets, hostPathKeys(hosts, paths))
	}
	return sets
}

// hostPathKeys returns the keys for all combinations of the hosts and the paths.
func hostPathKeys(hosts, paths keySet) keySet {
	product := keySet{
		keys:    make([]indexKey, 0, len(hosts.keys)*len(paths.keys)),
		implied: append(slices.Clone(hosts.implied), paths.implied...),
	}
	for _, path := range paths.keys {
		if path.kind != byHostPath {
			// Only the host can be combined. It is more selective than the last segment of a path.
			path = indexKey{kind: byHostPath, text: pattern.AnySegments}
			product.implied = hosts.implied
		}
		for _, host := range hosts.keys {
			path.host = host.host
			product.keys = append(product.keys, path)
		}
	}
	return product
}

// count adds the keys under which a condition could be indexed to b.counts.
func (b *indexBuilder) count(c *rules.Condition) {
	p := b.analyze(c)
	for _, set := range p.sets {
		for _, k := range set.keys {
			b.counts[k.indexed()]++
			if k.kind == bySuffix || k.kind == bySubstring {
				b.counts[k.withoutText()]++
			}
		}
	}
	for _, group := range p.groups {
		for i := range group {
			b.count(&group[i])
		}
	}
}

// bestKeys returns the key set of a condition whose keys the fewest other conditions share, and the largest number of
// conditions that share one of these keys. The set has no keys if the condition cannot be indexed.
func (b *indexBuilder) bestKeys(c *rules.Condition) (best keySet, sharing int) {
	p := b.analyze(c)
	for _, set := range p.sets {
		n, worthwhile := 0, true
		for _, k := range set.keys {
			n = max(n, b.counts[k.indexed()])
			switch k.kind {
			case byPresence, byValue, byPrefix, byNormalizedPath:
				n++ // prefer equally good keys of host and path, which are read for every request
			case bySuffix, bySubstring:
				n += 2 // prefer equally good keys that are found faster
				worthwhile = worthwhile && b.counts[k.withoutText()] > maxUnindexedPatterns
			}
		}
		if worthwhile && (best.keys == nil || n < sharing) {
			best, sharing = set, n
		}
	}
	for _, group := range p.groups {
		if union, n := b.unionKeys(group); union.keys != nil && (best.keys == nil || n < sharing) {
			best, sharing = union, n
		}
	}
	return best, sharing
}

// unionKeys returns the keys of all conditions of a group, at least one of which must be true. The union has no keys if
// one of the conditions cannot be indexed.
func (b *indexBuilder) unionKeys(group []rules.Condition) (union keySet, sharing int) {
	for i := range group {
		set, n := b.bestKeys(&group[i])
		if set.keys == nil {
			return keySet{}, 0
		}
		union.keys, sharing = append(union.keys, set.keys...), max(sharing, n)
	}
	return union, sharing
}

// add adds a condition under a key.
func (b *indexBuilder) add(k indexKey, h hit) {
	x := b.index
	switch k.kind {
	case byHostPath:
		t := b.hosts[k.host]
		if t == nil {
			t = &trie{}
			b.hosts[k.host] = t
		}
		t.add(pathRoute(k.text), h)
	case byLastSegment:
		b.lastSegments[k.text] = append(b.lastSegments[k.text], h)
	case byRootedLastSegment:
		b.rootedLastSegments[k.text] = append(b.rootedLastSegments[k.text], h)
	case byNet:
		if x.nets == nil {
			x.nets = newNetTree()
		}
		x.nets.add(k.net, h)
	case byValue:
		if b.values[k.attr] == nil {
			b.values[k.attr] = map[string][]hit{}
		}
		b.values[k.attr][k.text] = append(b.values[k.attr][k.text], h)
	case byPresence:
		b.present[k.attr] = append(b.present[k.attr], h)
	case bySuffix:
		addPattern(b.suffixes, k.attr, literalRoute(reversed(k.text)), h)
	case bySubstring:
		addPattern(b.substrings, k.attr, literalRoute(k.text), h)
		b.substringHits[k.attr] = append(b.substringHits[k.attr], h)
	case byPrefix:
		addPattern(b.patterns, k.attr, prefixRoute(k.text), h)
	default:
		addPattern(b.patterns, k.attr, pathRoute(k.text), h)
	}
}

func addPattern(tries map[int]*trie, attr int, r route, h hit) {
	if tries[attr] == nil {
		tries[attr] = &trie{}
	}
	tries[attr].add(r, h)
}

// finish moves the collected hits into the index.
func (b *indexBuilder) finish() {
	x := b.index
	roots := map[string]int32{}
	for host, t := range b.hosts {
		root := x.tries.add(t)
		if host == "" {
			x.paths = root
			continue
		}
		roots[host] = root
		if host[0] == '.' {
			x.domainDots |= 1 << strings.Count(host, ".")
		}
	}
	x.hosts = newTextTable(roots)
	x.lastSegments, x.rootedLastSegments = x.newHitTable(b.lastSegments), x.newHitTable(b.rootedLastSegments)
	named := map[headgate.AttributeKind][]table{}
	for attr, a := range b.compiler.attributes {
		t := table{
			attr:          attr,
			present:       b.present[attr],
			exact:         x.newHitTable(b.values[attr]),
			patterns:      x.tries.addRoot(b.patterns[attr]),
			suffixes:      x.tries.addRoot(b.suffixes[attr]),
			substrings:    x.tries.addRoot(b.substrings[attr]),
			substringHits: b.substringHits[attr],
		}
		t.hasPatterns = t.patterns != noNode || t.suffixes != noNode || t.substrings != noNode
		switch {
		case t.empty():
		case hasNames(a.Kind):
			named[a.Kind] = append(named[a.Kind], t)
		default:
			x.tables = append(x.tables, t)
		}
	}
	for kind, tables := range named {
		x.addNamed(kind, tables, b.compiler.attributes)
	}
	x.tries.labels = nil
}

// newHitTable returns a table of hits by text, or nil if there are none.
func (x *index) newHitTable(values map[string][]hit) *textTable[span] {
	spans := make(map[string]span, len(values))
	for text, hits := range values {
		from := len(x.hits)
		x.hits = append(x.hits, hits...)
		spans[text] = span{int32(from), int32(len(x.hits))}
	}
	return newTextTable(spans)
}
