package rules

import (
	"slices"
	"strings"
	"time"
)

// A trie is a tree of a forest while it grows.
type trie struct {
	label string
	kids  []*trie
	star  *trie
	ends  ends
}

// add puts a hit at the end of a route.
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
	case endsHere:
		t.ends.here = append(t.ends.here, h)
	case endsBelow:
		t.ends.below = append(t.ends.below, h)
	default:
		t.ends.more = append(t.ends.more, h)
	}
}

// walk returns the node that a text leads to, and makes it if need be.
func (t *trie) walk(text string) *trie {
	for text != "" {
		k := 0
		for k < len(t.kids) && t.kids[k].label[0] != text[0] {
			k++
		}
		if k == len(t.kids) {
			made := &trie{label: text}
			t.kids = append(t.kids, made)
			return made
		}
		kid := t.kids[k]
		shared := commonPrefix(kid.label, text)
		if shared < len(kid.label) { // a node between the two
			made := &trie{label: text[:shared], kids: []*trie{kid}}
			kid.label = kid.label[shared:]
			t.kids[k], kid = made, made
		}
		t, text = kid, text[shared:]
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

// nodesAtOnce is after how many nodes others are let pass: see turn.
const nodesAtOnce = 1024

// plant puts a tree into the forest and returns its root.
func (f *forest) plant(t *trie) int32 {
	nodes, found := t.count()
	f.nodes, f.ends = slices.Grow(f.nodes, nodes), slices.Grow(f.ends, found)
	return f.add(t)
}

// count returns how many nodes there are, and at how many of them something is found.
func (t *trie) count() (nodes, found int) {
	nodes = 1
	if !t.ends.empty() {
		found = 1
	}
	if t.star != nil {
		n, e := t.star.count()
		nodes, found = nodes+n, found+e
	}
	for _, kid := range t.kids {
		n, e := kid.count()
		nodes, found = nodes+n, found+e
	}
	return nodes, found
}

// add puts a tree, or a part of one, behind what is there.
func (f *forest) add(t *trie) int32 {
	at := int32(len(f.nodes))
	if at%nodesAtOnce == nodesAtOnce-1 {
		time.Sleep(politePause)
	}
	n := node{label: t.label, star: noNode, ends: noNode}
	if e := t.ends; !e.empty() {
		n.ends, n.more = int32(len(f.ends)), len(e.more) > 0
		f.ends = append(f.ends, e)
	}
	if len(t.kids) > 0 {
		low, high := byte(255), byte(0)
		for _, kid := range t.kids {
			low, high = min(low, kid.label[0]), max(high, kid.label[0])
		}
		n.low, n.span, n.jumps = low, uint16(high-low)+1, int32(len(f.jumps))
		for range n.span {
			f.jumps = append(f.jumps, noNode)
		}
	}
	f.nodes = append(f.nodes, n)
	if t.star != nil {
		star := f.add(t.star)
		f.nodes[at].star = star
	}
	for _, kid := range t.kids {
		f.jumps[n.jumps+int32(kid.label[0]-n.low)] = f.add(kid)
	}
	return at
}

// settle brings the labels of all nodes together in memory.
func (f *forest) settle() {
	size := 0
	for i := range f.nodes {
		size += len(f.nodes[i].label)
	}
	var labels strings.Builder
	labels.Grow(size)
	for i := range f.nodes {
		labels.WriteString(f.nodes[i].label)
	}
	text := labels.String()
	for i := range f.nodes {
		size := len(f.nodes[i].label)
		f.nodes[i].label, text = text[:size], text[size:]
	}
}
