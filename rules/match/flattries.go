package match

import (
	"strings"

	"github.com/headgate/headgate/rules/internal/pattern"
)

// flatTries holds tries that find the patterns a text may match: one trie for each host, one for paths of any host, one
// for each attribute with patterns. Nodes share common prefixes of patterns, byte by byte. A star that takes up the
// rest of a segment is an edge of its own. More complex parts of a pattern are not indexed: such a pattern is found
// where that part begins, and the caller must match it again.
//
// A star ends at the next slash, so a search reaches a node with only one remaining text and visits it once.
//
// All data is contiguous: a step reads a node, an element of children, and a label.
type flatTries struct {
	nodes     []node
	children  []int32 // of all nodes, by the first bytes of their labels; noNode where there is none
	terminals []terminals
}

type node struct {
	label      string // the text on the edge to this node
	star       int32  // the node behind a star, noNode if there is none
	terminals  int32  // an index into flatTries.terminals, noNode if no pattern ends here
	firstChild int32  // index of the first child in children, the one that begins with low
	childCount uint16 // number of elements in children
	low        byte
	hasPrefix  bool // some patterns end here whatever text follows
}

// terminals holds the patterns that are found at a node.
type terminals struct {
	exact   []hit // if the text ends here
	subtree []hit // if the text ends here or a slash follows
	prefix  []hit // whatever text follows
}

func (e *terminals) empty() bool { return len(e.exact)+len(e.subtree)+len(e.prefix) == 0 }

// find passes the patterns that a text may match to c.
func (f *flatTries) find(root int32, text string, c *collector, p *probe) {
	nodes, children := f.nodes, f.children
	n := &nodes[root]
	for {
		if n.terminals != noNode && (n.hasPrefix || text == "" || text[0] == '/') {
			c.considerTerminals(&f.terminals[n.terminals], text, p)
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

func (c *collector) considerTerminals(e *terminals, text string, p *probe) {
	if len(e.prefix) > 0 {
		c.tried += len(e.prefix)
		c.consider(e.prefix, p)
	}
	if text == "" {
		c.consider(e.exact, p)
		c.consider(e.subtree, p)
	} else if text[0] == '/' {
		c.consider(e.subtree, p)
	}
}

// A route is the indexed part of a pattern: texts with a star between each two, then an end.
type route struct {
	texts []string
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

// prefixRoute returns the route of any other pattern with stars.
func prefixRoute(glob string) route {
	return route{texts: []string{glob[:strings.IndexByte(glob, pattern.Star)]}, end: endPrefix}
}

// selective reports whether the route distinguishes texts at all.
func (r *route) selective() bool {
	for _, text := range r.texts {
		if text != "" && text != "/" {
			return true
		}
	}
	return r.end == endExact
}
