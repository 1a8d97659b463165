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

// A collector keeps the ranks of the conditions that are true, in order and each once.
type collector struct {
	conds []cond // what is left to look at
	first bool   // only the lowest rank is wanted
	count int
	room  [manyMatches]int32
	more  []int32 // instead of room if there are too many
}

// manyMatches is how many can be true without memory being allocated.
const manyMatches = 32

// found returns the ranks.
func (c *collector) found() []int32 {
	if c.more != nil {
		return c.more
	}
	return c.room[:c.count]
}

// consider looks at conditions that may be true.
func (c *collector) consider(list []hit, p *probe) {
	for _, h := range list {
		c.considerOne(h, p)
	}
}

func (c *collector) considerOne(h hit, p *probe) {
	rank := h.rank()
	if c.first && c.count > 0 && rank > c.room[0] {
		return
	}
	if h.proven() || c.conds[rank].holds(p) {
		c.add(rank)
	}
}

// add puts a rank in its place. Most come in order.
func (c *collector) add(rank int32) {
	n := c.count
	switch {
	case n == 0 || c.first:
		c.room[0], c.count = rank, 1
	case n < manyMatches && c.room[n-1] < rank && c.more == nil:
		c.room[n] = rank
		c.count++
	default:
		c.insert(rank)
	}
}

func (c *collector) insert(rank int32) {
	list := c.found()
	at := len(list)
	for at > 0 && list[at-1] >= rank {
		at--
	}
	switch {
	case at < len(list) && list[at] == rank: // found before, under another key
	case c.more != nil:
		c.more = slices.Insert(c.more, at, rank)
	case c.count == manyMatches:
		c.more = slices.Insert(slices.Clone(list), at, rank)
	default:
		for i := c.count; i > at; i-- {
			c.room[i] = c.room[i-1]
		}
		c.room[at] = rank
		c.count++
	}
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
	if x.paths == noNode && x.hosts == nil && x.tails == nil {
		return
	}
	path, _ := p.get(slotPath)
	if x.paths != noNode {
		x.forest.find(x.paths, path, c, p)
	}
	if x.tails != nil {
		x.considerText(x.tails.find(path[strings.LastIndexByte(path, '/')+1:]), c, p)
	}
	if x.hosts != nil {
		if host, ok := p.get(slotHost); ok {
			x.findHost(host, path, c, p)
		}
	}
}

func (x *index) findHost(host, path string, c *collector, p *probe) {
	if root := x.hosts.find(host); root != noNode {
		x.forest.find(root, path, c, p)
	}
	end := len(host)
	for dots := x.dots >> 1; dots != 0; dots >>= 1 {
		if end = strings.LastIndexByte(host[:end], '.'); end < 0 {
			return
		}
		if dots&1 == 0 {
			continue
		}
		if root := x.hosts.find(host[end:]); root != noNode {
			x.forest.find(root, path, c, p)
		}
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
