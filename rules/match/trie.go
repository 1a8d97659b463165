package match

import (
	"time"

	"github.com/headgate/headgate/rules/internal/yield"
)

// A trie is a node of a trie that is being built. flatTries.add converts it.
type trie struct {
	label    string
	children []*trie
	star     *trie
	exact    []hit // patterns that match if the text ends here
	subtree  []hit // if the text ends here or a slash follows
	prefix   []hit // whatever text follows
}

// add adds a hit at the end of a route.
func (t *trie) add(r route, h hit) {
	for i, text := range r.texts {
		if i > 0 {
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

// walk returns the node that a text leads to, and creates it if necessary.
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
		shared := commonPrefix(child.label, text)
		if shared < len(child.label) { // insert a node between t and child
			added := &trie{label: text[:shared], children: []*trie{child}}
			child.label = child.label[shared:]
			t.children[k], child = added, added
		}
		t, text = child, text[shared:]
	}
	return t
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// nodesPerPause is the number of nodes after which add pauses: see [yield.Yielder].
const nodesPerPause = 1024

// addRoot appends a trie and returns its root, noNode if t is nil.
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
	n := node{label: f.shared(t.label), star: noNode, terminals: noNode}
	if len(t.prefix)+len(t.exact)+len(t.subtree) > 0 {
		n.terminals, n.hasPrefix = int32(len(f.terminals)), len(t.prefix) > 0
		f.terminals = append(f.terminals, f.addHits(t))
	}
	if len(t.children) > 0 {
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
		star := f.add(t.star)
		f.nodes[at].star = star
	}
	for _, child := range t.children {
		f.children[n.firstChild+int32(child.label[0]-n.low)] = f.add(child)
	}
	return at
}

// addHits appends the hits of a node.
func (f *flatTries) addHits(t *trie) (e terminals) {
	e.prefix = int32(len(f.hits))
	f.hits = append(f.hits, t.prefix...)
	e.exact = int32(len(f.hits))
	f.hits = append(f.hits, t.exact...)
	e.subtree = int32(len(f.hits))
	f.hits = append(f.hits, t.subtree...)
	e.end = int32(len(f.hits))
	return e
}

// shared returns a label in the memory of an equal one, if there is one.
func (f *flatTries) shared(label string) string {
	known, ok := f.labels[label]
	if !ok {
		if f.labels == nil {
			f.labels = make(map[string]string)
		}
		f.labels[label], known = label, label
	}
	return known
}
