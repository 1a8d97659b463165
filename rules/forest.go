package rules

import "strings"

// A forest finds the patterns that a text may match. There is a tree for every place to begin: one for each host, one for
// paths of any host, one for each attribute with patterns. Nodes are what patterns have in common, byte for byte. A star
// that takes up the rest of a segment is an edge of its own. What comes after a more difficult part is not looked at:
// such a pattern is found where that part begins, and whoever asks must look again.
//
// A star ends at the next slash, so a node is reached with one rest of the text only, and each is looked at once.
//
// Everything lies close together: a step reads a node, a place in jumps, and a label.
type forest struct {
	nodes []node
	jumps []int32 // the children of all nodes by the first bytes of their labels, noNode where there is none
	ends  []ends
}

type node struct {
	label string // what leads here
	star  int32  // where a star leads, noNode for nowhere
	ends  int32  // what ends here, noNode for nothing
	jumps int32  // where its children are in jumps: from the one that begins with low on
	span  uint16 // over how many bytes
	low   byte
	more  bool // some of what ends here does so whatever comes next
}

// ends are the patterns that are found at a node.
type ends struct {
	here  []hit // the text ends here
	below []hit // or a slash comes next
	more  []hit // whatever comes next
}

func (e *ends) empty() bool { return len(e.here)+len(e.below)+len(e.more) == 0 }

// find hands the patterns that a text may match to c.
func (f *forest) find(root int32, text string, c *collector, p *probe) {
	nodes, jumps := f.nodes, f.jumps
	n := &nodes[root]
	for {
		if n.ends != noNode && (n.more || text == "" || text[0] == '/') {
			c.considerEnds(&f.ends[n.ends], text, p)
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
		jump := text[0] - n.low
		if uint16(jump) >= n.span {
			return
		}
		at := jumps[n.jumps+int32(jump)]
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

func (c *collector) considerEnds(e *ends, text string, p *probe) {
	if len(e.more) > 0 {
		c.consider(e.more, p)
	}
	if text == "" {
		c.consider(e.here, p)
		c.consider(e.below, p)
	} else if text[0] == '/' {
		c.consider(e.below, p)
	}
}

// A route is how a pattern is found: texts with a star between each two, then an end.
type route struct {
	texts []string
	end   routeEnd
}

type routeEnd uint8

const (
	endsHere  routeEnd = iota // the pattern ends
	endsBelow                 // "/**", and it ends
	endsMore                  // more that must be looked at
)

// pathRoute returns the route of a pattern of a path.
func pathRoute(pattern string) route {
	var r route
	for {
		i := strings.IndexAny(pattern, anyRun+anyPath)
		switch {
		case i < 0:
			r.texts = append(r.texts, pattern)
			return r
		case pattern[i] == deep:
			r.end = endsMore
			if i > 0 && i == len(pattern)-1 {
				r.end = endsBelow
			}
			r.texts = append(r.texts, strings.TrimSuffix(pattern[:i], "/")) // "/search/**" is true of "/search" too
			return r
		case i+1 < len(pattern) && pattern[i+1] != '/':
			r.texts, r.end = append(r.texts, pattern[:i]), endsMore
			return r
		}
		r.texts = append(r.texts, pattern[:i])
		pattern = pattern[i+1:]
	}
}

// runRoute returns the route of any other pattern with stars.
func runRoute(pattern string) route {
	return route{texts: []string{pattern[:strings.IndexByte(pattern, star)]}, end: endsMore}
}

// selective tells whether the route tells texts apart at all.
func (r *route) selective() bool {
	for _, text := range r.texts {
		if text != "" && text != "/" {
			return true
		}
	}
	return r.end == endsHere
}
