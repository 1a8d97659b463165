package envoyrls

import (
	"strings"
	"unsafe"
)

// A pattern is a descriptor whose key or value contains '*', which stands for any text, also none.
type pattern struct {
	parts []string // the text between the stars
	order int      // among all patterns of its level
	node  *node
}

// joint stands between key and value where a pattern with '*' in the key is compared with both as one text, which is how
// envoyproxy/ratelimit compares all of them.
const joint = "_"

// addPattern adds a descriptor to the patterns of the level if its key or value contains '*'.
func (l *level) addPattern(key, value string, n *node) {
	l.patterns++
	switch {
	case strings.Contains(key, wildcard):
		text := key
		if value != "" {
			text += joint + value
		}
		l.joined = append(l.joined, pattern{strings.Split(text, wildcard), l.patterns, n})
	case strings.Contains(value, wildcard):
		if l.wild == nil {
			l.wild = make(map[string][]pattern)
		}
		l.wild[key] = append(l.wild[key], pattern{strings.Split(value, wildcard), l.patterns, n})
	}
}

// match returns the node of the first pattern, in the order of the file, that matches an entry; nil for none.
func (l *level) match(e *entry) *node {
	found := firstMatch(l.wild[e.key], e.value)
	if len(l.joined) > 0 {
		var room [256]byte // longer entries are rare and allocate
		text := append(append(append(room[:0], e.key...), joint...), e.value...)
		other := firstMatch(l.joined, unsafe.String(unsafe.SliceData(text), len(text)))
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

// matches reports whether text consists of the pattern's parts in their order, with any text between them. Each part in the
// middle is searched as far left as possible: if any placement fits, that one does.
func (p *pattern) matches(text string) bool {
	first, last := p.parts[0], p.parts[len(p.parts)-1] // there are at least two
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
