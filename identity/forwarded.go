package identity

import "strings"

// maxElement is the maximum length of an element of a forwarding header.
const maxElement = 512

// reverseElements returns the elements of a list from the last to the first. The list may have several lines. Text that
// the client has sent is at the left. If the list were read from the left, this text could change how the rest is read,
// for example with an unpaired quote.
type reverseElements struct {
	lines  []string // not read yet
	rest   string   // the unread part of the current line
	inLine bool     // a line is being read
	quotes bool     // commas in quotes do not separate elements
}

// next returns an element without the white space around it. For an element that is too long or has an unpaired quote
// it returns "?", which is not a valid address.
func (b *reverseElements) next() (element string, ok bool) {
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
			return trimBlanks(element), true
		}
	}
	if quoted {
		return "?", true
	}
	b.inLine = false
	return trimBlanks(b.rest), true
}

// escaped reports whether the character after the text is escaped, because the text ends with an odd number of
// backslashes.
func escaped(before string) bool {
	n := len(before) - len(strings.TrimRight(before, `\`))
	return n%2 == 1
}

// readForwarded returns the address in an element of Forwarded, such as for="[2001:db8::1]:80";proto=https. It returns
// false if the element has "unknown" or an obfuscated name instead of an address.
func readForwarded(element string) (client parsedAddr, ok bool) {
	found := false
	for element != "" {
		name, rest, cut := strings.Cut(element, "=")
		if !cut || !isToken(trimBlanks(name)) {
			return parsedAddr{}, false
		}
		var value string
		if value, rest, ok = cutValue(rest); !ok {
			return parsedAddr{}, false
		}
		if strings.EqualFold(trimBlanks(name), "for") {
			if found {
				return parsedAddr{}, false
			}
			found = true
			if client, ok = readForwardedNode(value); !ok {
				return parsedAddr{}, false
			}
		}
		element = rest
	}
	return client, found
}

// cutValue returns the value at the start of the text, which may be quoted, and the rest after the next semicolon.
func cutValue(text string) (value, rest string, ok bool) {
	if text == "" || text[0] != '"' {
		value, rest, _ = strings.Cut(text, ";")
		value = trimBlanks(value)
		return value, trimBlanks(rest), value != "" && strings.IndexByte(value, '"') < 0
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			value, rest = text[1:i], trimBlanks(text[i+1:])
			if rest == "" {
				return value, "", true
			}
			return value, trimBlanks(rest[1:]), rest[0] == ';'
		}
	}
	return "", "", false
}

// readForwardedNode parses an address as readNode does. As RFC 7239 allows, the port may be an obfuscated name that
// begins with an underscore.
func readForwardedNode(node string) (parsedAddr, bool) {
	if before, port, ok := cutLast(node, ':'); ok && len(port) > 1 && port[0] == '_' {
		for i := 1; i < len(port); i++ {
			if !isObfuscated(port[i]) {
				return parsedAddr{}, false
			}
		}
		node = before
	}
	return readNode(node)
}

func isObfuscated(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '.' || c == '_' || c == '-'
}
