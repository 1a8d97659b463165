// Package http1 is what both ends of the gateway need to read heads of HTTP/1.1.
package http1

import (
	"bytes"
	"strings"
)

// Upper has, for each byte that may be in a header's name, its form at the beginning of a word, as net/http writes names; and 0
// for all others.
var Upper = nameBytes(bytes.ToUpper)

// Lower has the form inside a word.
var Lower = nameBytes(bytes.ToLower)

func nameBytes(form func([]byte) []byte) (table [256]byte) {
	for c := range 128 {
		b := byte(c)
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0 {
			table[b] = form([]byte{b})[0]
		}
	}
	return table
}

// IsSpace reports whether a byte is one that may stand around a header's value.
func IsSpace(c byte) bool { return c == ' ' || c == '\t' }

// HeadEnd returns where the head at the beginning of b ends, its empty line included, or 0 if it does not yet. from is where to
// look on: HeadEnd moves it, so that no byte is looked at twice.
func HeadEnd(b []byte, from *int) int {
	for {
		i := bytes.IndexByte(b[*from:], '\n')
		if i < 0 {
			*from = len(b)
			return 0
		}
		end := *from + i + 1
		switch {
		case end < len(b) && b[end] == '\n':
			return end + 1
		case end+1 < len(b) && b[end] == '\r' && b[end+1] == '\n':
			return end + 2
		case end == len(b), end+1 == len(b) && b[end] == '\r':
			*from = end - 1 // the rest may be coming
			return 0
		}
		*from = end
	}
}
