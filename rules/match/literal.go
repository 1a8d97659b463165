package match

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules/internal/pattern"
)

// A patternPart selects the part of a pattern by which an index finds the pattern.
type patternPart uint8

const (
	partStart   patternPart = iota // the text before the first star
	partEnd                        // the text after the last star
	partLongest                    // the longest text without stars
)

// maxLiteral is the maximum number of bytes of a pattern's end, or of a text in it, that are indexed. It limits the
// time of a search.
const maxLiteral = 32

// literalKey returns the key that finds a pattern with stars by its end or by its longest text. proves is set if every
// value that the key matches also matches the pattern. The text of the key is empty if the pattern has no such part.
func literalKey(attr int, kind headgate.AttributeKind, glob string, part patternPart) (k indexKey, proves bool) {
	texts := literals(glob)
	last := texts[len(texts)-1]
	if part == partEnd {
		k = indexKey{kind: bySuffix, attr: attr, text: last[max(0, len(last)-maxLiteral):]}
		return k, kind != headgate.AttrPath && glob == pattern.AnyText+k.text
	}
	text := slices.MaxFunc(texts, func(a, b string) int { return len(a) - len(b) })
	return indexKey{kind: bySubstring, attr: attr, text: text[:min(len(text), maxLiteral)]}, false
}

// literals returns the texts between the stars of a pattern. It removes slashes next to a double star, because they are
// missing from a path in which the double star matches no segment: "/a/**" also matches "/a".
func literals(glob string) []string {
	texts := []string{}
	for {
		i := strings.IndexAny(glob, pattern.AnyText+pattern.AnySegments)
		if i < 0 {
			return append(texts, glob)
		}
		text, isDouble := glob[:i], glob[i] == pattern.DoubleStar
		glob = glob[i+1:]
		if isDouble {
			text, glob = strings.TrimSuffix(text, "/"), strings.TrimPrefix(glob, "/")
		}
		texts = append(texts, text)
	}
}

// literalRoute returns the route of a text after which any text may follow.
func literalRoute(text string) route { return route{texts: []string{text}, end: endPrefix} }

// withoutText returns the key under which all keys of the same kind and attribute are counted together.
func (k indexKey) withoutText() indexKey { return indexKey{kind: k.kind, attr: k.attr} }

func reversed(text string) string {
	b := []byte(text)
	slices.Reverse(b)
	return string(b)
}

// findSuffixes finds patterns by the end of a value.
func (x *index) findSuffixes(t *table, value string, c *collector, p *probe) {
	var b [maxLiteral]byte
	n := copy(b[:], value[max(0, len(value)-maxLiteral):])
	slices.Reverse(b[:n])
	x.tries.find(t.suffixes, unsafe.String(&b[0], n), c, p)
}

// findSubstrings finds patterns by a text in a value. It searches at every position of the value. If it finds more hits
// than there are patterns, it evaluates all patterns instead, which is faster.
func (x *index) findSubstrings(t *table, value string, c *collector, p *probe) {
	tries := &x.tries
	root := &tries.nodes[t.substrings]
	c.tried = 0
	for i := range len(value) {
		child := value[i] - root.low
		if uint16(child) >= root.childCount || tries.children[root.firstChild+int32(child)] == noNode {
			continue
		}
		tries.find(t.substrings, value[i:], c, p)
		if c.tried > len(t.substringHits) {
			c.consider(t.substringHits, p)
			return
		}
	}
}

// empty reports whether the table has no conditions.
func (t *table) empty() bool {
	return len(t.present) == 0 && t.exact == nil && !t.hasPatterns
}
