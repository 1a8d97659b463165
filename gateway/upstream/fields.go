package upstream

import (
	"strings"

	"github.com/headgate/headgate/gateway/internal/http1"
)

func isToken(s string) bool {
	for i := range len(s) {
		if http1.Lower[s[i]] == 0 {
			return false
		}
	}
	return s != ""
}

// isValue reports whether all bytes of a header's value may be there: printing characters, spaces, tabs, and those above ASCII.
func isValue[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

func trim(s string) string {
	for s != "" && http1.IsSpace(s[0]) {
		s = s[1:]
	}
	for s != "" && http1.IsSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

// ours reports whether a header of this name is never taken over from one message to the other: it is for one connection only
// (RFC 9110 section 7.6.1), or says how the message ends, which each side does for itself.
func ours(name string) bool {
	// Most names are told by their length alone.
	switch len(name) {
	case 2:
		return strings.EqualFold(name, "TE")
	case 4:
		return strings.EqualFold(name, "Host")
	case 6:
		return strings.EqualFold(name, "Expect")
	case 7:
		return strings.EqualFold(name, "Trailer") || strings.EqualFold(name, "Upgrade")
	case 10:
		return strings.EqualFold(name, "Connection") || strings.EqualFold(name, "Keep-Alive")
	case 14:
		return strings.EqualFold(name, "Content-Length") || strings.EqualFold(name, "HTTP2-Settings")
	case 16:
		return strings.EqualFold(name, "Proxy-Connection")
	case 17:
		return strings.EqualFold(name, "Transfer-Encoding")
	case 18:
		return strings.EqualFold(name, "Proxy-Authenticate")
	case 19:
		return strings.EqualFold(name, "Proxy-Authorization")
	}
	return false
}

// neverTrailers are the fields that a recipient may not take from a trailer (RFC 9110 section 6.5.1): they frame, route,
// authenticate or change what was said in the head. Upstreams that merge trailers into headers exist, so they do not pass.
var neverTrailers = map[string]bool{
	"Age": true, "Authorization": true, "Cache-Control": true, "Content-Encoding": true, "Content-Range": true,
	"Content-Type": true, "Cookie": true, "Date": true, "Expires": true, "Forwarded": true, "If-Match": true,
	"If-Modified-Since": true, "If-None-Match": true, "If-Range": true, "If-Unmodified-Since": true, "Location": true,
	"Max-Forwards": true, "Pragma": true, "Range": true, "Retry-After": true, "Set-Cookie": true, "Vary": true, "Via": true,
	"Warning": true, "Www-Authenticate": true, "X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true,
	"X-Real-Ip": true,
}

// mayTrail reports whether a field of this name, in net/http's form, may be in a trailer.
func mayTrail(name string) bool { return isToken(name) && !ours(name) && !neverTrailers[name] }

// elements calls yield for each element of a list that may be on several lines.
func elements(lines []string, yield func(element string)) {
	for _, line := range lines {
		for rest, more := line, true; more; {
			var element string
			element, rest, more = strings.Cut(rest, ",")
			if element = trim(element); element != "" {
				yield(element)
			}
		}
	}
}

func contains(lines []string, token string) bool {
	found := false
	elements(lines, func(element string) { found = found || strings.EqualFold(element, token) })
	return found
}
