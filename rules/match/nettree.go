package match

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// A netTree finds the networks that contain an address. It is a binary trie in which a path without branches is one
// node, so a search visits as many nodes as there are different networks on the way, and at most one per bit of the
// address.
type netTree struct {
	nodes  []netNode
	v4, v6 int32 // roots, noNode if there are none
}

type netNode struct {
	net  bitString
	zero int32 // the child whose next bit is 0, noNode if there is none
	one  int32
	hits []hit // hits of exactly this network
}

const noNode = -1

// A bitString is the beginning of an address: its first size bits. The rest is zero.
type bitString struct {
	high, low uint64
	size      uint8
}

func bitsOf(net netip.Prefix) bitString {
	addr := net.Addr()
	var b bitString
	if addr.Is4() {
		four := addr.As4()
		b.high = uint64(binary.BigEndian.Uint32(four[:])) << 32
	} else {
		all := addr.As16()
		b.high, b.low = binary.BigEndian.Uint64(all[:8]), binary.BigEndian.Uint64(all[8:])
	}
	return b.cut(uint8(net.Bits()))
}

// cut returns the first size bits.
func (b bitString) cut(size uint8) bitString {
	b.size = size
	switch {
	case size == 0:
		b.high, b.low = 0, 0
	case size <= 64:
		b.high, b.low = b.high&(^uint64(0)<<(64-size)), 0
	case size < 128:
		b.low &= ^uint64(0) << (128 - size)
	}
	return b
}

// bit returns the bit at an index.
func (b bitString) bit(at uint8) bool {
	if at < 64 {
		return b.high>>(63-at)&1 != 0
	}
	return b.low>>(127-at)&1 != 0
}

// commonBits returns the length of the common prefix.
func (b bitString) commonBits(o bitString) uint8 {
	n := bits.LeadingZeros64(b.high ^ o.high)
	if n == 64 {
		n += bits.LeadingZeros64(b.low ^ o.low)
	}
	return min(uint8(n), b.size, o.size)
}

func newNetTree() *netTree { return &netTree{v4: noNode, v6: noNode} }

// add adds a hit for a network.
func (t *netTree) add(net netip.Prefix, h hit) {
	b := bitsOf(net)
	root := t.v6
	if net.Addr().Is4() {
		root = t.v4
	}
	root = t.insert(root, b, h)
	if net.Addr().Is4() {
		t.v4 = root
	} else {
		t.v6 = root
	}
}

// insert adds a hit below the node at and returns the node that replaces it.
func (t *netTree) insert(at int32, b bitString, h hit) int32 {
	if at == noNode {
		return t.node(b, h)
	}
	n := &t.nodes[at]
	switch shared := n.net.commonBits(b); {
	case n.net == b:
		n.hits = append(n.hits, h)
		return at
	case shared == n.net.size:
		if b.bit(shared) {
			one := t.insert(n.one, b, h)
			t.nodes[at].one = one
		} else {
			zero := t.insert(n.zero, b, h)
			t.nodes[at].zero = zero
		}
		return at
	default:
		branch := n.net.cut(shared)
		old := n.net.bit(shared)
		parent := t.node(branch, h)
		below := int32(noNode)
		if shared < b.size {
			t.nodes[parent].hits = nil
			below = t.node(b, h)
		}
		if old {
			t.nodes[parent].one, t.nodes[parent].zero = at, below
		} else {
			t.nodes[parent].zero, t.nodes[parent].one = at, below
		}
		return parent
	}
}

func (t *netTree) node(b bitString, h hit) int32 {
	t.nodes = append(t.nodes, netNode{net: b, zero: noNode, one: noNode, hits: []hit{h}})
	return int32(len(t.nodes) - 1)
}

// root returns the root for the address family of a network.
func (t *netTree) root(net netip.Prefix) int32 {
	if net.Addr().Is4() {
		return t.v4
	}
	return t.v6
}

// step returns the node at and its child on the way to b, or nil and noNode if b is not in the node's network.
func (t *netTree) step(at int32, b bitString) (n *netNode, next int32) {
	n = &t.nodes[at]
	if n.net.commonBits(b) != n.net.size {
		return nil, noNode
	}
	if b.size == n.net.size {
		return n, noNode
	}
	if b.bit(n.net.size) {
		return n, n.one
	}
	return n, n.zero
}

// contains reports whether one of the networks contains the address.
func (t *netTree) contains(net netip.Prefix) bool {
	b := bitsOf(net)
	for at := t.root(net); at != noNode; {
		n, next := t.step(at, b)
		if n == nil {
			return false
		}
		if len(n.hits) > 0 {
			return true
		}
		at = next
	}
	return false
}
