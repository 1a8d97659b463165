package http1

import "bytes"

// HeadEnd returns the length of the head at the beginning of b, including its empty line, or 0 if b does not contain
// all of it. The search starts at *from; HeadEnd advances it, so that no byte is searched twice.
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
			*from = end - 1 // the rest of the empty line may follow
			return 0
		}
		*from = end
	}
}

// IsTargetByte reports whether a byte may be in the target of a request line. A fragment is not sent, so # may not.
func IsTargetByte(c byte) bool { return c > ' ' && c < 0x7f && c != '#' }

// BodyForbidden reports whether a response with this status has no body, whatever its header says.
func BodyForbidden(status int) bool { return status < 200 || status == 204 || status == 304 }
