package match

import (
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/internal/pattern"
	"github.com/headgate/headgate/rules/internal/yield"
)

// maxUnindexed is the largest number of conditions that are evaluated one by one instead of through an index.
const maxUnindexed = 4

// maxUnindexedPatterns is the largest number of patterns of an attribute that are not indexed by their end or by a text
// in them.
const maxUnindexedPatterns = 8

// maxHostPathKeys limits the host and path combinations that one condition is indexed under.
const maxHostPathKeys = 256

// newIndex returns an index of conditions and, for each condition, the part that is still to be evaluated after the
// index has found it. The rank of a condition is its position in the list. extraTests has, by rank, tests that must hold
// as well; it may be nil.
func newIndex(conditions []*rules.Condition, extraTests [][]compiledTest, r *compiler) (*index, []compiledCondition) {
	b := indexBuilder{
		compiler:           r,
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
	few := len(conditions) <= maxUnindexed
	if !few {
		for _, c := range conditions {
			work.Step()
			b.count(c)
		}
	}
	for rank, c := range conditions {
		work.Step()
		set := keySet{}
		if !few {
			set, _ = b.bestKeys(c)
		}
		b.conds[rank] = r.compileCondition(c, set.implied)
		if extraTests != nil {
			b.conds[rank].tests = append(b.conds[rank].tests, extraTests[rank]...)
		}
		h := newHit(int32(rank), b.conds[rank].empty())
		if set.keys == nil {
			b.index.always = append(b.index.always, h)
		}
		for _, k := range set.keys {
			b.add(k, h)
		}
	}
	b.finish()
	return b.index, b.conds
}

type indexBuilder struct {
	compiler           *compiler
	conds              []compiledCondition
	counts             map[indexKey]int // number of conditions that could be indexed under a key, by indexed
	analyses           map[*rules.Condition]analysis
	values             map[int]map[string][]hit // by slot
	hosts              map[string]*trie
	lastSegments       map[string][]hit
	rootedLastSegments map[string][]hit
	present            map[int][]hit // by slot, like all below
	patterns           map[int]*trie
	suffixes           map[int]*trie
	substrings         map[int]*trie
	substringHits      map[int][]hit
	index              *index
}

// keysOf returns the keys of a test by a part of its patterns.
func keysOf(slot int, t *rules.Test, part patternPart) keySet {
	keys, proven := testKeys(slot, t, part)
	set := keySet{keys: keys}
	if proven {
		set.implied = []*rules.Test{t}
	}
	return set
}

// flatten splits a condition into tests that must all hold and groups of conditions; one of each group must be true.
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

// An analysis holds the key sets that a condition can be indexed under, each of which is sufficient, and its groups of
// conditions; one of each group must be true.
type analysis struct {
	sets   []keySet
	groups [][]rules.Condition
}

func (b *indexBuilder) analyze(c *rules.Condition) analysis {
	cached, ok := b.analyses[c]
	if !ok {
		tests, groups := flatten(c)
		cached = analysis{b.sets(tests), groups}
		b.analyses[c] = cached
	}
	return cached
}

// sets returns the key sets that tests can be indexed under. Each of them is sufficient.
func (b *indexBuilder) sets(tests []*rules.Test) []keySet {
	var sets []keySet
	var hosts, paths keySet
	for _, t := range tests {
		slot := b.compiler.slot(t.Attribute)
		for _, by := range []patternPart{partEnd, partLongest} {
			if set := keysOf(slot, t, by); set.keys != nil {
				sets = append(sets, set)
			}
		}
		set := keysOf(slot, t, partStart)
		if set.keys == nil {
			continue
		}
		switch {
		case t.Attribute.Kind == headgate.AttrHost && hosts.keys == nil:
			hosts = set
		case slot == slotPath && paths.keys == nil:
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

// hostPathKeys returns the combinations of hosts and paths.
func hostPathKeys(hosts, paths keySet) keySet {
	product := keySet{
		keys:    make([]indexKey, 0, len(hosts.keys)*len(paths.keys)),
		implied: append(slices.Clone(hosts.implied), paths.implied...),
	}
	for _, path := range paths.keys {
		if path.kind != byHostPath {
			path = indexKey{kind: byHostPath, text: pattern.AnySegments} // the host is more selective
			product.implied = hosts.implied
		}
		for _, host := range hosts.keys {
			path.host = host.host
			product.keys = append(product.keys, path)
		}
	}
	return product
}

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

// bestKeys returns the key set that the fewest other conditions are indexed under, and the largest number of conditions
// under one of its keys. The set has no keys if the condition cannot be indexed.
func (b *indexBuilder) bestKeys(c *rules.Condition) (best keySet, most int) {
	p := b.analyze(c)
	for _, set := range p.sets {
		n, worthwhile := 0, true
		for _, k := range set.keys {
			n = max(n, b.counts[k.indexed()])
			switch k.kind {
			case byPresence, byValue, byPrefix, byNormalizedPath:
				n++ // prefer host and path, which are read anyway
			case bySuffix, bySubstring:
				n += 2 // prefer beginnings, which are found faster
				worthwhile = worthwhile && b.counts[k.withoutText()] > maxUnindexedPatterns
			}
		}
		if worthwhile && (best.keys == nil || n < most) {
			best, most = set, n
		}
	}
	for _, group := range p.groups {
		if union, n := b.unionKeys(group); union.keys != nil && (best.keys == nil || n < most) {
			best, most = union, n
		}
	}
	return best, most
}

// unionKeys returns the keys of a group of conditions of which one must be true.
func (b *indexBuilder) unionKeys(group []rules.Condition) (union keySet, most int) {
	for i := range group {
		set, n := b.bestKeys(&group[i])
		if set.keys == nil {
			return keySet{}, 0
		}
		union.keys, most = append(union.keys, set.keys...), max(most, n)
	}
	return union, most
}

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
		if b.values[k.slot] == nil {
			b.values[k.slot] = map[string][]hit{}
		}
		b.values[k.slot][k.text] = append(b.values[k.slot][k.text], h)
	case byPresence:
		b.present[k.slot] = append(b.present[k.slot], h)
	case bySuffix:
		addPattern(b.suffixes, k.slot, literalRoute(reversed(k.text)), h)
	case bySubstring:
		addPattern(b.substrings, k.slot, literalRoute(k.text), h)
		b.substringHits[k.slot] = append(b.substringHits[k.slot], h)
	case byPrefix:
		addPattern(b.patterns, k.slot, prefixRoute(k.text), h)
	default:
		addPattern(b.patterns, k.slot, pathRoute(k.text), h)
	}
}

func addPattern(tries map[int]*trie, slot int, r route, h hit) {
	if tries[slot] == nil {
		tries[slot] = &trie{}
	}
	tries[slot].add(r, h)
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
	for slot, a := range b.compiler.attributes {
		t := table{
			slot:          slot,
			present:       b.present[slot],
			exact:         x.newHitTable(b.values[slot]),
			patterns:      x.tries.addRoot(b.patterns[slot]),
			suffixes:      x.tries.addRoot(b.suffixes[slot]),
			substrings:    x.tries.addRoot(b.substrings[slot]),
			substringHits: b.substringHits[slot],
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

// newHitTable returns a table of hits by text, nil if there are none.
func (x *index) newHitTable(values map[string][]hit) *textTable[span] {
	spans := make(map[string]span, len(values))
	for text, hits := range values {
		from := len(x.hits)
		x.hits = append(x.hits, hits...)
		spans[text] = span{int32(from), int32(len(x.hits))}
	}
	return newTextTable(spans)
}
