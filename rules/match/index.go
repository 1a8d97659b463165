package match

import (
	"net/netip"
	"slices"
	"strings"
)

// An index finds the conditions that may be true of a request without evaluating all of them. Each condition has keys,
// at least one of which matches every request it is true of. They come from the part of the condition whose keys the
// fewest other conditions share. A condition without such a part is evaluated for every request.
type index struct {
	always             []hit
	tables             []table
	tries              flatTries
	paths              int32      // trie for paths of any host, noNode if there is none
	hosts              *textTable // tries by host, or by domain with a leading dot for all hosts below it
	domainDots         uint64     // bit set of the numbers of dots in such domains
	lastSegments       *textTable // hits by the last segment of a path
	rootedLastSegments *textTable // the same for paths that begin with a slash
	nets               *netTree
	lists              [][]hit // for texts with several hits
}

// The slots of attributes that an index handles specially. Every compiler assigns them first.
const (
	slotHost = iota
	slotPath
	slotIP
)

// A table finds conditions by the value of one attribute.
type table struct {
	slot     int
	exact    *textTable // hits by value, nil if there are none
	patterns int32      // trie for patterns, noNode if there is none
}

// A hit is the rank of a condition times two, plus one if finding it proves that the condition is true.
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

// firstList and lower numbers refer to lists of hits. A text in an index has one hit, as most do, or a list.
const firstList = -2

// A collector collects the ranks of the conditions that are true.
type collector struct {
	conds    []compiledCondition // parts that are still to be evaluated
	first    bool                // only the lowest rank is wanted
	bufLimit int                 // capacity of buf in use: maxInlineMatches, 0 if first
	count    int
	buf      [maxInlineMatches]int32 // unsorted, with duplicates
	overflow []int32                 // ranks that did not fit into buf
}

// maxInlineMatches is how many conditions can be true without an allocation.
const maxInlineMatches = 32

// ranks returns the ranks in order, without duplicates.
func (c *collector) ranks() []int32 {
	if c.overflow != nil {
		c.overflow = append(c.overflow, c.buf[:c.count]...)
		slices.Sort(c.overflow)
		return slices.Compact(c.overflow)
	}
	c.sort()
	return c.buf[:c.count]
}

// sort sorts buf and drops duplicates. There are few ranks, and most are added in order.
func (c *collector) sort() {
	list, twice := c.buf[:c.count], false
	for i := 1; i < len(list); i++ {
		rank, at := list[i], i
		if list[i-1] < rank {
			continue
		}
		for at > 0 && list[at-1] > rank {
			list[at] = list[at-1]
			at--
		}
		list[at] = rank
		twice = twice || at > 0 && list[at-1] == rank
	}
	if twice {
		c.count = len(slices.Compact(list))
	}
}

// consider evaluates conditions that may be true.
func (c *collector) consider(list []hit, p *probe) {
	for _, h := range list {
		c.considerOne(h, p)
	}
}

func (c *collector) considerOne(h hit, p *probe) {
	rank := h.rank()
	if !h.proven() && (c.superseded(rank) || !c.conds[rank].holds(p)) {
		return
	}
	if n := c.count; n < c.bufLimit {
		c.buf[n%maxInlineMatches] = rank
		c.count = n + 1
		return
	}
	c.add(rank)
}

// superseded reports whether only the lowest rank is wanted and a lower one was found.
func (c *collector) superseded(rank int32) bool { return c.first && c.count > 0 && rank >= c.buf[0] }

// add adds a rank if only the lowest is wanted, or if buf is full.
func (c *collector) add(rank int32) {
	if c.first {
		if !c.superseded(rank) {
			c.buf[0], c.count = rank, 1
		}
		return
	}
	if c.sort(); c.count == maxInlineMatches {
		c.overflow = append(c.overflow, c.buf[:]...)
		c.count = 0
	}
	c.buf[c.count] = rank
	c.count++
}

// matchesAll reports whether all n conditions are always true.
func (x *index) matchesAll(conditions int) bool {
	for _, h := range x.always {
		if !h.proven() {
			return false
		}
	}
	return len(x.always) == conditions
}

// considerEntry evaluates the hits of a text in the index.
func (x *index) considerEntry(n int32, c *collector, p *probe) {
	if n >= 0 {
		c.considerOne(hit(n), p)
	} else if n <= firstList {
		c.consider(x.lists[firstList-n], p)
	}
}

// find passes the conditions that may be true to c, some perhaps more than once.
func (x *index) find(c *collector, p *probe) {
	if len(x.always) > 0 {
		c.consider(x.always, p)
	}
	for i := range x.tables {
		t := &x.tables[i]
		value, ok := p.get(t.slot)
		if !ok {
			continue
		}
		if t.exact != nil {
			x.considerEntry(t.exact.find(value), c, p)
		}
		if t.patterns != noNode {
			x.tries.find(t.patterns, value, c, p)
		}
	}
	if x.nets != nil {
		if net := p.address(); net.IsValid() {
			x.nets.find(net, c, p)
		}
	}
	if x.paths == noNode && x.hosts == nil && x.lastSegments == nil && x.rootedLastSegments == nil {
		return
	}
	path, _ := p.get(slotPath)
	if x.paths != noNode {
		x.tries.find(x.paths, path, c, p)
	}
	if x.lastSegments != nil || x.rootedLastSegments != nil {
		x.findLastSegment(path, c, p)
	}
	if x.hosts != nil {
		if host, ok := p.get(slotHost); ok {
			x.findHost(host, path, c, p)
		}
	}
}

func (x *index) findLastSegment(path string, c *collector, p *probe) {
	tail := path[strings.LastIndexByte(path, '/')+1:]
	if x.lastSegments != nil {
		x.considerEntry(x.lastSegments.find(tail), c, p)
	}
	if x.rootedLastSegments != nil && len(tail) < len(path) && path[0] == '/' {
		x.considerEntry(x.rootedLastSegments.find(tail), c, p)
	}
}

func (x *index) findHost(host, path string, c *collector, p *probe) {
	if root := x.hosts.find(host); root != noNode {
		x.tries.find(root, path, c, p)
	}
	if x.domainDots == 0 {
		return
	}
	for left := strings.Count(host, "."); x.domainDots&(2<<left-1) != 0; left-- { // number of dots in host
		at := strings.IndexByte(host, '.')
		if x.domainDots>>left&1 != 0 {
			if root := x.hosts.find(host[at:]); root != noNode {
				x.tries.find(root, path, c, p)
			}
		}
		host = host[at+1:]
	}
}

// find passes the hits of all networks that contain an address to c.
func (t *netTree) find(net netip.Prefix, c *collector, p *probe) {
	b := bitsOf(net)
	for at := t.root(net); at != noNode; {
		n, next := t.step(at, b)
		if n == nil {
			return
		}
		if len(n.hits) > 0 {
			c.consider(n.hits, p)
		}
		at = next
	}
}
