package match

import (
	"slices"
	"strings"
)

// An index finds the conditions that may be true of a request, so that not all conditions need to be evaluated. It
// finds a condition by one or more keys, such as a host and the beginning of a path. If the condition is true of a
// request, at least one of its keys matches that request. A condition without keys is evaluated for every request.
type index struct {
	unindexed          []hit // conditions without keys
	tables             []table
	named              []namedTables
	hits               []hit // of all text tables
	tries              flatTries
	paths              int32             // root of the trie for paths of any host, or noNode
	hosts              *textTable[int32] // roots of tries by host; ".b.c" stands for all hosts below b.c
	domainDots         uint64            // bit set: the numbers of dots that domains in hosts have
	lastSegments       *textTable[span]  // by the last segment of a path
	rootedLastSegments *textTable[span]  // by the last segment of a path that begins with a slash
	nets               *netTree
}

// The numbers of the attributes that an index treats differently. Every compiler assigns these numbers first.
const (
	attrHost = iota
	attrPath
	attrIP
)

// A span is a part of index.hits.
type span struct{ from, to int32 }

// A table finds conditions by the value of one attribute.
type table struct {
	attr          int              // the number of the attribute
	present       []hit            // conditions that may be true with any value
	exact         *textTable[span] // conditions by value; nil if there are none
	hasPatterns   bool             // one of the following tries exists
	patterns      int32            // root of the trie of patterns by their beginning, or noNode
	suffixes      int32            // root of the trie of patterns by their reversed end, or noNode
	substrings    int32            // root of the trie of patterns by a text in them, or noNode
	substringHits []hit            // all hits in the trie substrings
}

// A hit refers to a condition that the index has found. It is the condition's rank times two, plus one if the key
// proves that the condition is true. The rank is the position in the list of all conditions.
type hit int32

func newHit(rank int32, proven bool) hit {
	h := hit(rank << 1)
	if proven {
		h |= 1
	}
	return h
}

func (h hit) rank() int32 { return int32(h >> 1) }

func (h hit) proven() bool { return h&1 != 0 }

// A collector collects the ranks of the conditions that are true.
type collector struct {
	conds     []compiledCondition     // by rank; without the parts that the keys prove
	firstOnly bool                    // collect only the lowest rank
	tried     int                     // number of prefix hits in tries so far: see findSubstrings
	count     int                     // number of ranks in buf
	buf       [maxInlineMatches]int32 // unsorted, with duplicates
	overflow  []int32                 // ranks that did not fit into buf
}

// maxInlineMatches is the largest number of true conditions that a collector collects without an allocation.
const maxInlineMatches = 32

// ranks returns the collected ranks, sorted and without duplicates.
func (c *collector) ranks() []int32 {
	list := c.buf[:c.count]
	if c.overflow != nil {
		list = append(c.overflow, list...)
		slices.Sort(list)
		return slices.Compact(list)
	}
	for i := 1; i < len(list); i++ { // insertion sort: there are few ranks, and most of them are in order
		for at := i; at > 0 && list[at-1] > list[at]; at-- {
			list[at-1], list[at] = list[at], list[at-1]
		}
	}
	return slices.Compact(list)
}

// consider evaluates conditions that may be true, and collects the ranks of those that are true.
func (c *collector) consider(list []hit, p *probe) {
	for _, h := range list {
		rank := h.rank()
		if c.firstOnly && c.count > 0 && rank >= c.buf[0] { // a condition of a lower rank is true
			continue
		}
		if !h.proven() && !c.conds[rank].holds(p) {
			continue
		}
		if c.firstOnly {
			c.count = 0
		}
		if c.count == maxInlineMatches {
			c.makeRoom()
		}
		c.buf[c.count] = rank
		c.count++
	}
}

// makeRoom makes room in a full buf.
func (c *collector) makeRoom() {
	slices.Sort(c.buf[:])
	c.count = len(slices.Compact(c.buf[:]))
	if c.count == maxInlineMatches { // without any duplicates
		c.overflow = append(c.overflow, c.buf[:]...)
		c.count = 0
	}
}

// matchesAll reports whether all conditions are true of every request.
func (x *index) matchesAll(conditionCount int) bool {
	for _, h := range x.unindexed {
		if !h.proven() {
			return false
		}
	}
	return len(x.unindexed) == conditionCount
}

// find passes the conditions that may be true to c. It may pass a condition more than once.
func (x *index) find(c *collector, p *probe) {
	if len(x.unindexed) > 0 {
		c.consider(x.unindexed, p)
	}
	for i := range x.tables {
		x.findValue(&x.tables[i], c, p)
	}
	for i := range x.named {
		x.findNamed(&x.named[i], c, p)
	}
	if x.nets != nil {
		if net := p.address(); net.IsValid() {
			for hits := range x.nets.containing(net) {
				c.consider(hits, p)
			}
		}
	}
	if x.paths == noNode && x.hosts == nil && x.lastSegments == nil && x.rootedLastSegments == nil {
		return
	}
	path, _ := p.get(attrPath)
	if x.paths != noNode {
		x.tries.find(x.paths, path, c, p)
	}
	if x.lastSegments != nil || x.rootedLastSegments != nil {
		x.findLastSegment(path, c, p)
	}
	if x.hosts != nil {
		if host, ok := p.get(attrHost); ok {
			x.findHost(host, path, c, p)
		}
	}
}

// findValue finds conditions by the value of a table's attribute.
func (x *index) findValue(t *table, c *collector, p *probe) {
	value, ok := p.get(t.attr)
	if !ok {
		return
	}
	if len(t.present) > 0 {
		c.consider(t.present, p)
	}
	if t.exact != nil {
		x.findText(t.exact, value, c, p)
	}
	if t.hasPatterns {
		x.findPatterns(t, value, c, p)
	}
}

func (x *index) findPatterns(t *table, value string, c *collector, p *probe) {
	if t.patterns != noNode {
		x.tries.find(t.patterns, value, c, p)
	}
	if t.suffixes != noNode {
		x.findSuffixes(t, value, c, p)
	}
	if t.substrings != noNode {
		x.findSubstrings(t, value, c, p)
	}
}

func (x *index) findText(t *textTable[span], text string, c *collector, p *probe) {
	if s, ok := t.find(text); ok {
		c.consider(x.hits[s.from:s.to], p)
	}
}

func (x *index) findLastSegment(path string, c *collector, p *probe) {
	tail := path[strings.LastIndexByte(path, '/')+1:]
	if x.lastSegments != nil {
		x.findText(x.lastSegments, tail, c, p)
	}
	if x.rootedLastSegments != nil && len(tail) < len(path) && path[0] == '/' {
		x.findText(x.rootedLastSegments, tail, c, p)
	}
}

// findHost finds conditions by the host and by the domains that contain it, and by the path.
func (x *index) findHost(host, path string, c *collector, p *probe) {
	if root, ok := x.hosts.find(host); ok {
		x.tries.find(root, path, c, p)
	}
	if x.domainDots == 0 {
		return
	}
	// dots is the number of dots in host, which the loop shortens to its parent domains. It ends when all domains in the
	// index have more dots.
	for dots := strings.Count(host, "."); x.domainDots&(2<<dots-1) != 0; dots-- {
		at := strings.IndexByte(host, '.')
		if x.domainDots>>dots&1 != 0 {
			if root, ok := x.hosts.find(host[at:]); ok {
				x.tries.find(root, path, c, p)
			}
		}
		host = host[at+1:]
	}
}
