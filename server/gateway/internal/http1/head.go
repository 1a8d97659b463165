package http1

import "bytes"

// HeadEnd returns the length of the head at the beginning of b, including its empty line, or 0 if b does not contain
// all of it. The search starts at *from. HeadEnd advances *from, so that the next call does not search the same
// bytes again.
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
			*from = end - 1 // the next bytes may complete the empty line
			return 0
		}
		*from = end
	}
}

// IsTargetByte reports whether a byte may be in the target of a request line. It may not be #, because fragments
// are not sent.
func IsTargetByte(c byte) bool { return c > ' ' && c < 0x7f && c != '#' }

// plainPathBytes contains the bytes that are the same in a decoded and in an escaped path.
var plainPathBytes = func() (table [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-_.~$&+,:;=@") {
		table[c] = true
	}
	return table
}()

// IsPlainPathByte reports whether a byte stands for itself in the path of a target, so that it needs no decoding.
func IsPlainPathByte(c byte) bool { return plainPathBytes[c] }

// BodyForbidden reports whether a response with this status has no body, whatever its header says.
func BodyForbidden(status int) bool { return status < 200 || status == 204 || status == 304 }

// EscapeQuery escapes bytes that are invalid in a query. net/http accepts them, but services may interpret them
// differently from Headgate. clean reports whether the query has no invalid bytes.
func EscapeQuery(query string) (escaped string, clean bool) {
	i := 0
	for i < len(query) && IsTargetByte(query[i]) {
		i++
	}
	if i == len(query) {
		return query, true
	}
	const digits = "0123456789ABCDEF"
	b := make([]byte, i, len(query)+16)
	copy(b, query)
	for ; i < len(query); i++ {
		if c := query[i]; IsTargetByte(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(b), false
}
