package match

import (
	"strings"

	"github.com/headgate/headgate/rules/internal/pattern"
)

// flatTries holds tries that find the patterns that a text may match. There is one trie for each host, one for paths of
// any host, and one for each attribute with patterns. Patterns with a common prefix share its nodes. A star at the end
// of a segment is an edge between nodes. More complex parts of a pattern are not in the trie: the search finds such a
// pattern where that part begins, and the caller evaluates the whole pattern.
//
// A star ends at the next slash, so a search visits each node at most once.
//
// To use the CPU's cache well, all nodes are in one slice and all children in another, and equal labels share memory.
type flatTries struct {
	nodes     []node
	children  []int32 // the children of all nodes, by the first byte of their labels; noNode for a missing child
	terminals []terminals
	hits      []hit             // of all terminals
	labels    map[string]string // for sharing the memory of equal labels; nil after all tries have been added
}

// A node is a node of one of the tries.
type node struct {
	label      string // the text on the edge to this node
	star       int32  // the node after a star, or noNode
	terminals  int32  // index in flatTries.terminals, or noNode if no pattern ends here
	firstChild int32  // index in flatTries.children of the child whose label begins with the byte low
	childCount uint16 // number of elements of flatTries.children for this node: one for each byte from low on
	low        byte   // the lowest first byte of a child's label
	hasPrefix  bool   // a pattern ends here that matches whatever text follows
}

// terminals describes the patterns that end at a node: three consecutive parts of flatTries.hits.
type terminals struct {
	prefix  int32 // from here to exact: patterns that match whatever text follows
	exact   int32 // from here to subtree: patterns that match if no text follows
	subtree int32 // from here to end: patterns that match if no text or a slash follows
	end     int32
}

// find searches a trie, and passes the patterns that a text may match to c.
func (f *flatTries) find(root int32, text string, c *collector, p *probe) {
	nodes, children := f.nodes, f.children
	n := &nodes[root]
	for {
		if n.terminals != noNode && (n.hasPrefix || text == "" || text[0] == '/') {
			f.consider(&f.terminals[n.terminals], text, c, p)
		}
		if n.star != noNode {
			end := strings.IndexByte(text, '/')
			if end < 0 {
				end = len(text)
			}
			f.find(n.star, text[end:], c, p)
		}
		if text == "" {
			return
		}
		child := text[0] - n.low
		if uint16(child) >= n.childCount {
			return
		}
		at := children[n.firstChild+int32(child)]
		if at == noNode {
			return
		}
		n = &nodes[at]
		size := len(n.label)
		if size > 1 && (len(text) < size || text[1:size] != n.label[1:]) {
			return
		}
		text = text[size:]
	}
}

// consider passes those patterns of a node to c that may match. text is the text that follows the node.
func (f *flatTries) consider(end *terminals, text string, c *collector, p *probe) {
	from, to := end.prefix, end.exact
	c.tried += int(to - from)
	switch {
	case text == "":
		to = end.end
	case text[0] == '/':
		c.consider(f.hits[from:to], p)
		from, to = end.subtree, end.end
	}
	c.consider(f.hits[from:to], p)
}

// A route is the part of a pattern that is in a trie.
type route struct {
	texts []string // the texts between stars
	end   routeEnd
}

type routeEnd uint8

const (
	endExact   routeEnd = iota // the pattern ends
	endSubtree                 // the pattern ends with "/**"
	endPrefix                  // the rest of the pattern must be matched separately
)

// pathRoute returns the route of a path pattern.
func pathRoute(glob string) route {
	var r route
	for {
		i := strings.IndexAny(glob, pattern.AnyText+pattern.AnySegments)
		switch {
		case i < 0:
			r.texts = append(r.texts, glob)
			return r
		case glob[i] == pattern.DoubleStar:
			r.end = endPrefix
			if i > 0 && i == len(glob)-1 {
				r.end = endSubtree
			}
			r.texts = append(r.texts, strings.TrimSuffix(glob[:i], "/")) // "/search/**" also matches "/search"
			return r
		case i+1 < len(glob) && glob[i+1] != '/':
			r.texts, r.end = append(r.texts, glob[:i]), endPrefix
			return r
		}
		r.texts = append(r.texts, glob[:i])
		glob = glob[i+1:]
	}
}

// prefixRoute returns the route of a pattern with stars that is not a path.
func prefixRoute(glob string) route {
	return route{texts: []string{glob[:strings.IndexByte(glob, pattern.Star)]}, end: endPrefix}
}

// selective reports whether the route distinguishes texts. It does not if every path leads to its end.
func (r *route) selective() bool {
	for _, text := range r.texts {
		if text != "" && text != "/" {
			return true
		}
	}
	return r.end == endExact
}
