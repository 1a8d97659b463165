package rules

import (
	"slices"
	"strings"

	"github.com/headgate/headgate"
)

// fewConditions is how many are looked at one by one rather than through an index.
const fewConditions = 4

// mostPlaces bounds how many combinations of hosts and paths one condition may stand under.
const mostPlaces = 256

// newIndex makes an index of conditions, whose places in the list are their ranks, and what of each is left to look at
// when it was found. Besides its condition, each has further tests that must hold.
func newIndex(conditions []*Condition, further [][]test, r *reader) (*index, []cond) {
	b := builder{
		reader: r,
		conds:  make([]cond, len(conditions)),
		counts: make(map[key]int, len(conditions)),
		known:  make(map[*Condition]parts, len(conditions)),
		values: map[int]map[string][]hit{},
		tails:  map[string][]hit{},
		names:  map[string][]hit{},
		hosts:  map[string]*trie{},
		runs:   map[int]*trie{},
		index:  &index{paths: noNode},
	}
	var work turn
	few := len(conditions) <= fewConditions
	if !few {
		for _, c := range conditions {
			work.polite()
			b.count(c)
		}
	}
	for rank, c := range conditions {
		work.polite()
		set := keySet{}
		if !few {
			set, _ = b.best(c)
		}
		b.conds[rank] = r.read(c, set.implied)
		if further != nil {
			b.conds[rank].tests = append(b.conds[rank].tests, further[rank]...)
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

type builder struct {
	reader *reader
	conds  []cond
	counts map[key]int              // how many conditions could stand under a key
	known  map[*Condition]parts     // what was found out of conditions
	values map[int]map[string][]hit // by slot
	tails  map[string][]hit
	names  map[string][]hit
	hosts  map[string]*trie
	runs   map[int]*trie // by slot
	index  *index
}

// partsOf returns what must all be true: tests, and groups of conditions of which one must.
func partsOf(c *Condition) (tests []*Test, groups [][]Condition) {
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
		t, g := partsOf(&below[i])
		tests, groups = append(tests, t...), append(groups, g...)
	}
	return tests, groups
}

// parts are the sets of keys that a condition can stand under, any one of which will do, and its groups of conditions of
// which one must be true.
type parts struct {
	sets   []keySet
	groups [][]Condition
}

func (b *builder) parts(c *Condition) parts {
	found, ok := b.known[c]
	if !ok {
		tests, groups := partsOf(c)
		found = parts{b.sets(tests), groups}
		b.known[c] = found
	}
	return found
}

// sets returns the sets of keys that tests can stand under; any one of them will do.
func (b *builder) sets(tests []*Test) []keySet {
	var sets []keySet
	var hosts, paths keySet
	for _, t := range tests {
		keys, proven := keysOf(b.reader.slot(t.Attribute), t)
		if keys == nil {
			continue
		}
		set := keySet{keys: keys}
		if proven {
			set.implied = []*Test{t}
		}
		switch {
		case t.Attribute.Kind == headgate.AttrHost && hosts.keys == nil:
			hosts = set
		case t.Attribute.Kind == headgate.AttrPath && t.Attribute.Name == "" && paths.keys == nil:
			paths = set
		default:
			sets = append(sets, set)
		}
	}
	switch {
	case paths.keys == nil && hosts.keys != nil:
		sets = append(sets, hosts)
	case hosts.keys == nil && paths.keys != nil, len(hosts.keys)*len(paths.keys) > mostPlaces:
		sets = append(sets, paths)
	case paths.keys != nil:
		sets = append(sets, places(hosts, paths))
	}
	return sets
}

// places returns the combinations of hosts and paths.
func places(hosts, paths keySet) keySet {
	made := keySet{
		keys:    make([]key, 0, len(hosts.keys)*len(paths.keys)),
		implied: append(slices.Clone(hosts.implied), paths.implied...),
	}
	for _, path := range paths.keys {
		if path.kind != byPlace {
			path = key{kind: byPlace, text: anyPath} // the host tells more requests apart
			made.implied = hosts.implied
		}
		for _, host := range hosts.keys {
			path.host = host.host
			made.keys = append(made.keys, path)
		}
	}
	return made
}

func (b *builder) count(c *Condition) {
	p := b.parts(c)
	for _, set := range p.sets {
		for _, k := range set.keys {
			b.counts[k]++
		}
	}
	for _, group := range p.groups {
		for i := range group {
			b.count(&group[i])
		}
	}
}

// best returns the set of keys under which the fewest others stand, and how many at most that are. It has no keys if
// there is none.
func (b *builder) best(c *Condition) (best keySet, most int) {
	p := b.parts(c)
	for _, set := range p.sets {
		n := 0
		for _, k := range set.keys {
			n = max(n, b.counts[k])
			if k.kind == byValue || k.kind == byRun || k.kind == byForm {
				n++ // an attribute that is asked for nothing else
			}
		}
		if best.keys == nil || n < most {
			best, most = set, n
		}
	}
	for _, group := range p.groups {
		if union, n := b.union(group); union.keys != nil && (best.keys == nil || n < most) {
			best, most = union, n
		}
	}
	return best, most
}

// union returns the keys of conditions of which one must be true.
func (b *builder) union(group []Condition) (union keySet, most int) {
	for i := range group {
		set, n := b.best(&group[i])
		if set.keys == nil {
			return keySet{}, 0
		}
		union.keys, most = append(union.keys, set.keys...), max(most, n)
	}
	return union, most
}

func (b *builder) add(k key, h hit) {
	x := b.index
	switch k.kind {
	case byPlace:
		t := b.hosts[k.host]
		if t == nil {
			t = &trie{}
			b.hosts[k.host] = t
		}
		t.add(pathRoute(k.text), h)
	case byTail:
		b.tails[k.text] = append(b.tails[k.text], h)
	case byName:
		b.names[k.text] = append(b.names[k.text], h)
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
	default:
		if b.runs[k.slot] == nil {
			b.runs[k.slot] = &trie{}
		}
		route := runRoute
		if k.kind == byForm {
			route = pathRoute
		}
		b.runs[k.slot].add(route(k.text), h)
	}
}

// finish puts what was gathered into the index.
func (b *builder) finish() {
	x := b.index
	roots := map[string]int32{}
	for host, t := range b.hosts {
		root := x.forest.plant(t)
		if host == "" {
			x.paths = root
			continue
		}
		roots[host] = root
		if host[0] == '.' {
			x.dots |= 1 << strings.Count(host, ".")
		}
	}
	if len(roots) > 0 {
		x.hosts = newTexts(roots)
	}
	x.tails, x.names = b.texts(b.tails), b.texts(b.names)
	for slot := range b.reader.list {
		t := table{slot: slot, exact: b.texts(b.values[slot]), runs: noNode}
		if b.runs[slot] != nil {
			t.runs = x.forest.plant(b.runs[slot])
		}
		if t.exact != nil || t.runs != noNode {
			x.tables = append(x.tables, t)
		}
	}
	x.forest.settle()
}

// texts makes hits ready to be found by text; nil if there are none.
func (b *builder) texts(lists map[string][]hit) *texts {
	if len(lists) == 0 {
		return nil
	}
	values := make(map[string]int32, len(lists))
	for text, list := range lists {
		if len(list) == 1 {
			values[text] = int32(list[0])
			continue
		}
		values[text] = int32(firstList - len(b.index.lists))
		b.index.lists = append(b.index.lists, list)
	}
	return newTexts(values)
}
