package identity

import "strings"

// maxElement is how long an element of a forwarding header may be.
const maxElement = 512

// backwards walks the elements of a list that may be on several lines, from the last to the first. It begins at the end so
// that what a client has sent, at the left, cannot change how the rest is read: not by a quote that never ends either.
type backwards struct {
	lines  []string // not yet looked at
	rest   string   // of the line that is
	inLine bool
	quotes bool // commas in quotes do not separate
}

// next returns an element without the space around it. One that is too long, or has a quote without its pair, is "?", which
// is no element.
func (b *backwards) next() (element string, ok bool) {
	if !b.inLine {
		if len(b.lines) == 0 {
			return "", false
		}
		b.rest = b.lines[len(b.lines)-1]
		b.lines = b.lines[:len(b.lines)-1]
		b.inLine = true
	}
	i, quoted := len(b.rest)-1, false
	for ; i >= 0; i-- {
		if len(b.rest)-i > maxElement {
			return "?", true
		}
		switch c := b.rest[i]; {
		case c == '"' && b.quotes && !(quoted && escaped(b.rest[:i])):
			quoted = !quoted
		case c == ',' && !quoted:
			element, b.rest = b.rest[i+1:], b.rest[:i]
			return trim(element), true
		}
	}
	if quoted {
		return "?", true
	}
	b.inLine = false
	return trim(b.rest), true
}

// escaped reports whether what follows is escaped, which it is after an odd number of backslashes.
func escaped(before string) bool {
	n := len(before) - len(strings.TrimRight(before, `\`))
	return n%2 == 1
}

// readForwarded reads the address in an element of Forwarded, such as for="[2001:db8::1]:80";proto=https. Where it says
// "unknown", or a name that hides the address, there is none.
func readForwarded(element string) (client place, ok bool) {
	found := false
	for element != "" {
		name, rest, cut := strings.Cut(element, "=")
		if !cut || !isToken(trim(name)) {
			return place{}, false
		}
		var value string
		if value, rest, ok = cutValue(rest); !ok {
			return place{}, false
		}
		if strings.EqualFold(trim(name), "for") {
			if found {
				return place{}, false
			}
			found = true
			if client, ok = readForwardedNode(value); !ok {
				return place{}, false
			}
		}
		element = rest
	}
	return client, found
}

// cutValue cuts a value, quoted or not, from what follows its semicolon.
func cutValue(text string) (value, rest string, ok bool) {
	if text == "" || text[0] != '"' {
		value, rest, _ = strings.Cut(text, ";")
		value = trim(value)
		return value, trim(rest), value != "" && strings.IndexByte(value, '"') < 0
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			value, rest = text[1:i], trim(text[i+1:])
			if rest == "" {
				return value, "", true
			}
			return value, trim(rest[1:]), rest[0] == ';'
		}
	}
	return "", "", false
}

// readForwardedNode is readNode for RFC 7239, where a port too may be hidden by a name that begins with an underscore.
func readForwardedNode(node string) (place, bool) {
	if before, port, ok := cutLast(node, ':'); ok && len(port) > 1 && port[0] == '_' {
		for i := 1; i < len(port); i++ {
			if !isHidden(port[i]) {
				return place{}, false
			}
		}
		node = before
	}
	return readNode(node)
}

func isHidden(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '.' || c == '_' || c == '-'
}
