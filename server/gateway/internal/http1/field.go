package http1

import (
	"bytes"
	"errors"
	"math"
	"strings"
)

// wordStart maps each byte that may be in a field name to its canonical form at the beginning of a word, and all
// other bytes to 0. inWord maps it to its form inside a word.
var (
	wordStart = nameBytes(bytes.ToUpper)
	inWord    = nameBytes(bytes.ToLower)
)

func nameBytes(form func([]byte) []byte) (table [256]byte) {
	for c := range 128 {
		b := byte(c)
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' ||
			strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0 {
			table[b] = form([]byte{b})[0]
		}
	}
	return table
}

// A Span is the part of a head from index From up to, but not including, index To.
type Span struct{ From, To int }

// Bytes returns the part of b.
func (s Span) Bytes(b []byte) []byte { return b[s.From:s.To] }

// Text returns the part of text.
func (s Span) Text(text string) string { return text[s.From:s.To] }

// A Field has the positions of a header line's name and value in the head.
type Field struct{ Name, Value Span }

// Reasons why a field is refused.
var (
	ErrFieldName  = errors.New("the name of a header is invalid")
	ErrFieldValue = errors.New("the value of a header is invalid")
	ErrNoColon    = errors.New("a header line has no colon")
)

// ParseField parses the header line b[from:to], which has no line end. It converts the name to canonical form in b
// itself.
func ParseField(b []byte, from, to int) (f Field, err error) {
	colon, err := canonicalize(b[from:to])
	if err != nil {
		return f, err
	}
	f.Name = Span{from, from + colon}
	i := from + colon + 1
	for i < to && isSpace(b[i]) {
		i++
	}
	for to > i && isSpace(b[to-1]) {
		to--
	}
	f.Value = Span{i, to}
	if !IsValue(b[i:to]) {
		return f, ErrFieldValue
	}
	return f, nil
}

// canonicalize converts the name at the beginning of a line to canonical form, and returns the position of the colon
// after it.
func canonicalize(line []byte) (colon int, err error) {
	table := &wordStart
	for i, c := range line {
		if c == ':' {
			if i == 0 {
				return 0, ErrFieldName
			}
			return i, nil
		}
		c = table[c]
		if c == 0 {
			return 0, ErrFieldName
		}
		line[i] = c
		table = &inWord
		if c == '-' {
			table = &wordStart
		}
	}
	return 0, ErrNoColon
}

// CanonicalName returns a name in canonical form. An invalid name is returned unchanged.
func CanonicalName(name string) string {
	line := append([]byte(name), ':')
	if colon, err := canonicalize(line); err == nil && colon == len(name) {
		return string(line[:colon])
	}
	return name
}

// IsToken reports whether s is a valid token. Names of methods, fields and protocols are tokens.
func IsToken(s string) bool {
	for i := range len(s) {
		if inWord[s[i]] == 0 {
			return false
		}
	}
	return s != ""
}

// IsTokenByte reports whether a byte may be in a token.
func IsTokenByte(c byte) bool { return inWord[c] != 0 }

// IsValue reports whether a field value may contain all bytes of s. Visible characters, spaces, tabs and bytes above
// ASCII are allowed.
func IsValue[T string | []byte](s T) bool {
	for ; len(s) >= 8; s = s[8:] {
		// Check eight bytes together. If one of them may be a control character, check each byte.
		word := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		const ones = 0x0101010101010101
		del := word ^ 0x7f*ones
		if ((word-' '*ones)&^word|(del-ones)&^del)&(0x80*ones) != 0 && !isShortValue(s[:8]) {
			return false
		}
	}
	return isShortValue(s)
}

func isShortValue[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isSpace reports whether a byte may surround a field value.
func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// Trim returns s without spaces and tabs around it.
func Trim(s string) string { return strings.Trim(s, " \t") }

// AppendField appends a header line. Name and value must be valid.
func AppendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// ParseLength parses a Content-Length, which consists of digits only.
func ParseLength[T string | []byte](text T) (n int64, ok bool) {
	for i := range len(text) {
		digit := int64(text[i]) - '0'
		if digit < 0 || digit > 9 || n > (math.MaxInt64-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, len(text) > 0
}

// IsEventStream reports whether a Content-Type means server-sent events. A proxy must send each event
// immediately.
func IsEventStream(contentType string) bool {
	const events = "text/event-stream"
	return len(contentType) >= len(events) && strings.EqualFold(contentType[:len(events)], events)
}
