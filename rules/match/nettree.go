package match

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"net/netip"
)

// A netTree finds the networks that contain an address. It is a binary trie in which a sequence of nodes without
// branches is one node. So a search visits at most one node for each bit of the address, and usually far fewer.
type netTree struct {
	nodes  []netNode
	v4, v6 int32 // roots, noNode if there are none
}

type netNode struct {
	net      bitString
	children [2]int32 // by the next bit; noNode if there is none
	hits     []hit    // of exactly this network
}

// noNode is the index of a node, or of another element, that does not exist.
const noNode = -1

// A bitString is the first size bits of an address. The other bits are zero.
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

// cut returns the first size bits of b.
func (b bitString) cut(size uint8) bitString {
	b.size = size
	switch {
	case size <= 64:
		b.high, b.low = b.high&(^uint64(0)<<(64-size)), 0
	case size < 128:
		b.low &= ^uint64(0) << (128 - size)
	}
	return b
}

// bit returns the bit at an index.
func (b bitString) bit(at uint8) uint64 {
	if at < 64 {
		return b.high >> (63 - at) & 1
	}
	return b.low >> (127 - at) & 1
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

// root returns the root for the address family of a network.
func (t *netTree) root(net netip.Prefix) *int32 {
	if net.Addr().Is4() {
		return &t.v4
	}
	return &t.v6
}

// add adds a hit for a network.
func (t *netTree) add(net netip.Prefix, h hit) {
	root := t.root(net)
	*root = t.insert(*root, bitsOf(net), h)
}

// insert adds a hit to the tree below node at. It returns the new root of that tree.
func (t *netTree) insert(at int32, b bitString, h hit) int32 {
	if at == noNode {
		return t.node(b, h)
	}
	n := &t.nodes[at]
	shared := n.net.commonBits(b)
	switch {
	case n.net == b:
		n.hits = append(n.hits, h)
		return at
	case shared == n.net.size:
		child := t.insert(n.children[b.bit(shared)], b, h)
		t.nodes[at].children[b.bit(shared)] = child
		return at
	}
	branch, bit := n.net.cut(shared), n.net.bit(shared)
	if shared == b.size { // the new network contains the old one
		parent := t.node(b, h)
		t.nodes[parent].children[bit] = at
		return parent
	}
	parent, sibling := t.node(branch), t.node(b, h)
	t.nodes[parent].children[bit], t.nodes[parent].children[1-bit] = at, sibling
	return parent
}

func (t *netTree) node(b bitString, hits ...hit) int32 {
	t.nodes = append(t.nodes, netNode{net: b, children: [2]int32{noNode, noNode}, hits: hits})
	return int32(len(t.nodes) - 1)
}

// containing returns the hits of each network that contains an address or network.
func (t *netTree) containing(net netip.Prefix) iter.Seq[[]hit] {
	return func(yield func([]hit) bool) {
		b := bitsOf(net)
		for at := *t.root(net); at != noNode; {
			n := &t.nodes[at]
			if n.net.commonBits(b) != n.net.size || len(n.hits) > 0 && !yield(n.hits) || b.size == n.net.size {
				return
			}
			at = n.children[b.bit(n.net.size)]
		}
	}
}

// contains reports whether one of the networks contains the address.
func (t *netTree) contains(net netip.Prefix) bool {
	for range t.containing(net) {
		return true
	}
	return false
}
