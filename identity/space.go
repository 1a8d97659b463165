package identity

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// trimBlanks removes spaces and tabs, which HTTP allows around values.
func trimBlanks(s string) string { return strings.Trim(s, " \t") }

// trimAnySpace removes, from both ends of a value, all characters that some service treats as white space, whether the
// value is UTF-8 or ISO 8859-1.
func trimAnySpace(s string) string {
	for s != "" {
		n := leadingSpace(s)
		if n == 0 {
			break
		}
		s = s[n:]
	}
	for s != "" {
		last := s[len(s)-1]
		if last > ' ' && last < 0x7f {
			break
		}
		r, n := utf8.DecodeLastRuneInString(s)
		if n == 1 {
			r = rune(last)
		}
		if !isSpace(r) {
			break
		}
		s = s[:len(s)-n]
	}
	return s
}

// leadingSpace returns the length of the white-space character at the beginning of the text, or 0 if there is none.
func leadingSpace(s string) int {
	if s == "" || s[0] > ' ' && s[0] < 0x7f {
		return 0
	}
	r, n := utf8.DecodeRuneInString(s)
	if n == 1 {
		r = rune(s[0])
	}
	if !isSpace(r) {
		return 0
	}
	return n
}

// isSpace reports whether some services remove the character from the ends of a value. For example, Java removes all
// control characters, and JavaScript removes the byte order mark.
func isSpace(r rune) bool {
	return r <= ' ' || r == 0x7f || r == '\ufeff' || unicode.IsSpace(r)
}

// hasControl reports whether the text has a control character. Services read control characters in different ways: in
// C, for example, NUL ends a text. Servers do not accept control characters in headers and paths, so they can only come
// from escapes and from base64.
func hasControl(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }
