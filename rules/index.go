package rules

import (
	"net/netip"
	"slices"
	"strings"
)

// An index finds the conditions that may be true of a request without looking at all of them. Each condition stands under
// keys of which at least one fits every request it is true of; which of its parts to take for that is decided by how many
// others would stand under the same. A condition without such a part is looked at for every request.
type index struct {
	always []hit
	tables []table
	forest forest
	paths  int32  // the tree for any host, noNode if there is none
	hosts  *texts // trees by host, or by domain with its dot in front for those of all hosts below
	dots   uint64 // which numbers of dots such domains have
	tails  *texts // lists by the last segment of a path
	names  *texts // the same for paths that begin with a slash
	nets   *netTree
	lists  [][]hit // of hits that are more than one
}

// The slots of attributes that an index treats in a way of their own. Every reader begins with them.
const (
	slotHost = iota
	slotPath
	slotIP
)

// A table finds conditions by the value of one attribute.
type table struct {
	slot  int
	exact *texts // hits and lists by value, nil if there are none
	runs  int32  // the tree for patterns, noNode if there is none
}

// A hit is the rank of a condition that was found, twice, and one if it is known to be true by that.
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

// firstList and the numbers below it are lists of hits. A text in an index stands for one hit, as most do, or for a list.
const firstList = -2

// A collector keeps the ranks of the conditions that are true.
type collector struct {
	conds []cond // what is left to look at
	first bool   // only the lowest rank is wanted
	limit int    // how many ranks find room at once: manyMatches, 0 if first
	count int
	room  [manyMatches]int32 // as they come, some perhaps more than once
	more  []int32            // those that have found no room
}

// manyMatches is how many can be true without memory being allocated.
const manyMatches = 32

// found returns the ranks in order, each once.
func (c *collector) found() []int32 {
	if c.more != nil {
		c.more = append(c.more, c.room[:c.count]...)
		slices.Sort(c.more)
		return slices.Compact(c.more)
	}
	c.sort()
	return c.room[:c.count]
}

// sort puts the ranks in room in order, and drops those that are there already. There are few, and most come in order.
func (c *collector) sort() {
	list, twice := c.room[:c.count], false
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

// consider looks at conditions that may be true.
func (c *collector) consider(list []hit, p *probe) {
	for _, h := range list {
		c.considerOne(h, p)
	}
}

func (c *collector) considerOne(h hit, p *probe) {
	rank := h.rank()
	if !h.proven() && (c.has(rank) || !c.conds[rank].holds(p)) {
		return
	}
	if n := c.count; n < c.limit {
		c.room[n%manyMatches] = rank
		c.count = n + 1
		return
	}
	c.add(rank)
}

// has tells that a rank makes no difference: a lower one is there, and only the lowest is wanted.
func (c *collector) has(rank int32) bool { return c.first && c.count > 0 && rank >= c.room[0] }

// add adds a rank if only the lowest is wanted, or if there is no room left.
func (c *collector) add(rank int32) {
	if c.first {
		if !c.has(rank) {
			c.room[0], c.count = rank, 1
		}
		return
	}
	if c.sort(); c.count == manyMatches {
		c.more = append(c.more, c.room[:]...)
		c.count = 0
	}
	c.room[c.count] = rank
	c.count++
}

// matchesAll tells that all of so many conditions are always true.
func (x *index) matchesAll(conditions int) bool {
	for _, h := range x.always {
		if !h.proven() {
			return false
		}
	}
	return len(x.always) == conditions
}

// considerText looks at what a text in the index stands for.
func (x *index) considerText(n int32, c *collector, p *probe) {
	if n >= 0 {
		c.considerOne(hit(n), p)
	} else if n <= firstList {
		c.consider(x.lists[firstList-n], p)
	}
}

// find hands the conditions that may be true to c, some of them perhaps more than once.
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
			x.considerText(t.exact.find(value), c, p)
		}
		if t.runs != noNode {
			x.forest.find(t.runs, value, c, p)
		}
	}
	if x.nets != nil {
		if net := p.address(); net.IsValid() {
			x.nets.find(net, c, p)
		}
	}
	if x.paths == noNode && x.hosts == nil && x.tails == nil && x.names == nil {
		return
	}
	path, _ := p.get(slotPath)
	if x.paths != noNode {
		x.forest.find(x.paths, path, c, p)
	}
	if x.tails != nil || x.names != nil {
		x.findTail(path, c, p)
	}
	if x.hosts != nil {
		if host, ok := p.get(slotHost); ok {
			x.findHost(host, path, c, p)
		}
	}
}

func (x *index) findTail(path string, c *collector, p *probe) {
	tail := path[strings.LastIndexByte(path, '/')+1:]
	if x.tails != nil {
		x.considerText(x.tails.find(tail), c, p)
	}
	if x.names != nil && len(tail) < len(path) && path[0] == '/' {
		x.considerText(x.names.find(tail), c, p)
	}
}

func (x *index) findHost(host, path string, c *collector, p *probe) {
	if root := x.hosts.find(host); root != noNode {
		x.forest.find(root, path, c, p)
	}
	if x.dots == 0 {
		return
	}
	for left := strings.Count(host, "."); x.dots&(2<<left-1) != 0; left-- { // dots that host has left
		at := strings.IndexByte(host, '.')
		if x.dots>>left&1 != 0 {
			if root := x.hosts.find(host[at:]); root != noNode {
				x.forest.find(root, path, c, p)
			}
		}
		host = host[at+1:]
	}
}

// find hands what stands under the networks that an address lies in to c.
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
