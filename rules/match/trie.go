package match

import (
	"time"

	"github.com/headgate/headgate/rules/internal/yield"
)

// A trie is a node of a trie that is being built, together with all nodes below it. flatTries.add converts a finished
// trie.
type trie struct {
	label    string  // the text on the edge to this node
	children []*trie // their labels begin with different bytes
	star     *trie   // the node after a star, or nil
	exact    []hit   // patterns that match if no text follows
	subtree  []hit   // patterns that match if no text or a slash follows
	prefix   []hit   // patterns that match whatever text follows
}

// add adds a pattern with the given route. A search that reaches the end of the route finds h.
func (t *trie) add(r route, h hit) {
	for i, text := range r.texts {
		if i > 0 { // there is a star before every text but the first
			if t.star == nil {
				t.star = &trie{}
			}
			t = t.star
		}
		t = t.walk(text)
	}
	switch r.end {
	case endExact:
		t.exact = append(t.exact, h)
	case endSubtree:
		t.subtree = append(t.subtree, h)
	default:
		t.prefix = append(t.prefix, h)
	}
}

// walk returns the node at the end of a text, and creates it if necessary.
func (t *trie) walk(text string) *trie {
	for text != "" {
		k := 0
		for k < len(t.children) && t.children[k].label[0] != text[0] {
			k++
		}
		if k == len(t.children) {
			added := &trie{label: text}
			t.children = append(t.children, added)
			return added
		}
		child := t.children[k]
		common := commonPrefix(child.label, text)
		if common < len(child.label) { // insert a node between t and child
			added := &trie{label: text[:common], children: []*trie{child}}
			child.label = child.label[common:]
			t.children[k], child = added, added
		}
		t, text = child, text[common:]
	}
	return t
}

// commonPrefix returns the length of the common prefix of two texts.
func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// nodesPerPause is the number of nodes after which flatTries.add sleeps briefly, as a [yield.Yielder] does, so that
// building large tries does not delay requests.
const nodesPerPause = 1024

// addRoot appends a trie and returns its root, or noNode if t is nil.
func (f *flatTries) addRoot(t *trie) int32 {
	if t == nil {
		return noNode
	}
	return f.add(t)
}

// add appends a trie and returns its root.
func (f *flatTries) add(t *trie) int32 {
	at := int32(len(f.nodes))
	if at%nodesPerPause == nodesPerPause-1 {
		time.Sleep(yield.Pause)
	}
	n := node{label: f.intern(t.label), star: noNode, terminals: noNode}
	if len(t.prefix)+len(t.exact)+len(t.subtree) > 0 {
		n.terminals, n.hasPrefix = int32(len(f.terminals)), len(t.prefix) > 0
		f.terminals = append(f.terminals, f.addHits(t))
	}
	if len(t.children) > 0 { // reserve an element of f.children for each byte from the lowest first byte to the highest
		low, high := byte(255), byte(0)
		for _, child := range t.children {
			low, high = min(low, child.label[0]), max(high, child.label[0])
		}
		n.low, n.childCount, n.firstChild = low, uint16(high-low)+1, int32(len(f.children))
		for range n.childCount {
			f.children = append(f.children, noNode)
		}
	}
	f.nodes = append(f.nodes, n)
	if t.star != nil {
		star := f.add(t.star) // may reallocate f.nodes
		f.nodes[at].star = star
	}
	for _, child := range t.children {
		f.children[n.firstChild+int32(child.label[0]-n.low)] = f.add(child)
	}
	return at
}

// addHits appends the hits of a node, and returns the bounds of its prefix, exact and subtree hits.
func (f *flatTries) addHits(t *trie) (bounds terminals) {
	bounds.prefix = int32(len(f.hits))
	f.hits = append(f.hits, t.prefix...)
	bounds.exact = int32(len(f.hits))
	f.hits = append(f.hits, t.exact...)
	bounds.subtree = int32(len(f.hits))
	f.hits = append(f.hits, t.subtree...)
	bounds.end = int32(len(f.hits))
	return bounds
}

// intern returns a label that shares memory with equal labels of other nodes.
func (f *flatTries) intern(label string) string {
	known, ok := f.labels[label]
	if !ok {
		if f.labels == nil {
			f.labels = make(map[string]string)
		}
		f.labels[label], known = label, label
	}
	return known
}
