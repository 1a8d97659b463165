package h2

import (
	"net/http"
	"strings"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// commonNames maps names of common fields in lower case, as in HTTP/2, to their canonical form.
var commonNames = lowerNames(
	"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Authorization", "Cache-Control",
	"Content-Encoding", "Content-Length", "Content-Type", "Cookie", "Date", "Expect", "Forwarded", "From",
	"Grpc-Accept-Encoding", "Grpc-Encoding", "Grpc-Timeout", "Host", "If-Match", "If-Modified-Since", "If-None-Match",
	"If-Range", "If-Unmodified-Since", "Max-Forwards", "Origin", "Pragma", "Priority", "Range", "Referer", "Sec-Ch-Ua",
	"Sec-Ch-Ua-Mobile", "Sec-Ch-Ua-Platform", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User",
	"Te", "Trailer", "Traceparent", "Tracestate", "Upgrade-Insecure-Requests", "User-Agent", "Via", "X-Api-Key",
	"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "X-Request-Id", "X-Requested-With",
)

func lowerNames(canonical ...string) map[string]string {
	m := make(map[string]string, len(canonical))
	for _, name := range canonical {
		m[strings.ToLower(name)] = name
	}
	return m
}

// isConnectionField reports whether a field, given by its canonical name, is about an HTTP/1.1 connection. HTTP/2 has
// no such fields.
func isConnectionField(canonical string) bool {
	switch canonical {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade":
		return true
	default:
		return false
	}
}

const (
	// maxNames is the maximum number of other names whose canonical form a connection stores, and maxName the maximum
	// length of such a name.
	maxNames = 64
	maxName  = 64
)

// canonical returns the canonical form of a field name, or "" if the name is invalid. Names with capital letters are
// invalid in HTTP/2.
func (r *reader) canonical(name string) string {
	if known, ok := commonNames[name]; ok {
		return known
	}
	if known, ok := r.names[name]; ok {
		return known
	}
	if !http1.IsToken(name) || strings.ToLower(name) != name {
		return ""
	}
	canonical := http.CanonicalHeaderKey(name)
	if len(r.names) < maxNames && len(name) <= maxName {
		if r.names == nil {
			r.names = make(map[string]string)
		}
		r.names[name] = canonical
	}
	return canonical
}
