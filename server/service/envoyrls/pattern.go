package envoyrls

import (
	"strings"
	"unsafe"
)

// A pattern is a descriptor whose key or value contains '*', which matches any text, even an empty one.
type pattern struct {
	parts []string // the text between the stars
	order int      // position among all patterns of its level
	node  *node
}

// keyValueSeparator joins key and value. A pattern with '*' in its key is matched with the joined text, because
// envoyproxy/ratelimit matches all patterns in this way.
const keyValueSeparator = "_"

// addPattern adds a descriptor to the patterns of the level if its key or value contains '*'.
func (l *level) addPattern(key, value string, n *node) {
	l.patterns++
	switch {
	case strings.Contains(key, wildcard):
		text := key
		if value != "" {
			text += keyValueSeparator + value
		}
		l.keyPatterns = append(l.keyPatterns, pattern{strings.Split(text, wildcard), l.patterns, n})
	case strings.Contains(value, wildcard):
		if l.valuePatterns == nil {
			l.valuePatterns = make(map[string][]pattern)
		}
		l.valuePatterns[key] = append(l.valuePatterns[key], pattern{strings.Split(value, wildcard), l.patterns, n})
	}
}

// match returns the node of the first pattern in the file that matches an entry, or nil.
func (l *level) match(e *entry) *node {
	found := firstMatch(l.valuePatterns[e.key], e.value)
	if len(l.keyPatterns) > 0 {
		var buffer [256]byte // avoids an allocation unless the entry is longer
		text := append(append(append(buffer[:0], e.key...), keyValueSeparator...), e.value...)
		other := firstMatch(l.keyPatterns, unsafe.String(unsafe.SliceData(text), len(text)))
		if other != nil && (found == nil || other.order < found.order) {
			found = other
		}
	}
	if found == nil {
		return nil
	}
	return found.node
}

func firstMatch(list []pattern, text string) *pattern {
	for i := range list {
		if list[i].matches(text) {
			return &list[i]
		}
	}
	return nil
}

// matches reports whether text has the pattern's parts in order, with any text between them. It uses the leftmost
// occurrence of each middle part, because that leaves the most text for the next parts.
func (p *pattern) matches(text string) bool {
	first, last := p.parts[0], p.parts[len(p.parts)-1] // a pattern has at least two parts
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range p.parts[1 : len(p.parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return true
}
