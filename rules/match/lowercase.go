package match

import (
	"strings"
	"sync"
	"unsafe"
)

// hasUpperCase reports whether lowerPath changes a path.
func hasUpperCase(path string) bool {
	if len(path) < 8 {
		return hasUpperBytes(path)
	}
	upper := upperCase(path[len(path)-8:])
	for rest := path; len(rest) > 8; rest = rest[8:] {
		upper |= upperCase(rest)
	}
	return upper&0x8080808080808080 != 0 && hasUpperBytes(path)
}

// upperCase tests the first eight bytes of a text at once. If one of them is an ASCII letter in upper case or is not
// ASCII, the result has a byte whose highest bit is set.
func upperCase(s string) uint64 {
	const ones = 0x0101010101010101
	eight := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	return (eight+(0x80-'A')*ones)&^(eight+(0x80-'Z'-1)*ones) | eight
}

// hasUpperBytes tests a path byte by byte. It skips the digits of escapes, which are always in upper case.
func hasUpperBytes(path string) bool {
	for i := 0; i < len(path); i++ {
		if c := path[i]; c == '%' {
			i += 2
		} else if c >= 'A' && c <= 'Z' {
			return true
		}
	}
	return false
}

// lowerInPlace converts a path to lower case, except for the digits of escapes.
func lowerInPlace(path []byte) {
	for i := 0; i < len(path); i++ {
		if c := path[i]; c == '%' {
			i += 2
		} else if c >= 'A' && c <= 'Z' {
			path[i] = c + 'a' - 'A'
		}
	}
}

// lowerPath returns a path in lower case, except for the digits of escapes.
func lowerPath(path string) string {
	if !hasUpperCase(path) {
		return path
	}
	lowered := []byte(path)
	lowerInPlace(lowered)
	return string(lowered)
}

// A lowerCaser converts the path of one request and its segments to lower case. It reuses its buffer for other
// requests, so that a match allocates nothing.
type lowerCaser struct {
	buffer []byte
	values []loweredValue // a short list: the path and some of its segments
}

type loweredValue struct{ original, lowered string }

var lowerCasers = sync.Pool{New: func() any { return new(lowerCaser) }}

// maxLowerCaserBuffer is the maximum size of a buffer that is reused, so that one long path does not keep memory in
// use.
const maxLowerCaserBuffer = 16 << 10

// lower returns a path in lower case. It is valid until release.
func (l *lowerCaser) lower(path string) string {
	for i := range l.values {
		if v := &l.values[i]; v.original == path {
			return v.lowered
		}
	}
	at := len(l.buffer)
	l.buffer = append(l.buffer, path...) // if append allocates a larger buffer, earlier values stay in the old one
	lowered := l.buffer[at:]
	lowerInPlace(lowered)
	text := unsafe.String(unsafe.SliceData(lowered), len(lowered))
	l.values = append(l.values, loweredValue{path, text})
	return text
}

// detach removes references to the buffer from a result. If it removes the result's value, AppendKey later reads the
// value from the subject again.
func (l *lowerCaser) detach(m *Result) {
	if l.owns(m.value) {
		m.value = ""
	}
	if l.owns(m.Client) {
		m.Client = strings.Clone(m.Client)
	}
}

// owns reports whether a text is in the buffer, because it is one of the values or the beginning of one.
func (l *lowerCaser) owns(text string) bool {
	for i := range l.values {
		if text != "" && unsafe.StringData(text) == unsafe.StringData(l.values[i].lowered) {
			return true
		}
	}
	return false
}

// release makes all values invalid, and keeps the buffer for reuse unless it is large.
func (l *lowerCaser) release() {
	clear(l.values)
	l.buffer, l.values = l.buffer[:0], l.values[:0]
	if cap(l.buffer) <= maxLowerCaserBuffer {
		lowerCasers.Put(l)
	}
}
