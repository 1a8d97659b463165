package identity

import (
	"maps"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
)

// A headerName is the name of a header in the forms of net/http and gRPC.
type headerName struct{ canonical, lower string }

func nameOf(name string) headerName {
	return headerName{canonical: textproto.CanonicalMIMEHeaderKey(name), lower: strings.ToLower(name)}
}

// Names that do not depend on the Config.
var (
	nameAuthorization = nameOf("Authorization")
	nameConnection    = nameOf("Connection")
	nameCookie        = nameOf("Cookie")
	nameHost          = nameOf("Host")
)

// maxNames is the maximum number of cached names. They come from rules, so requests cannot add any.
const maxNames = 1 << 14

// headerNames caches the canonical form of names, because computing it allocates.
type headerNames struct {
	known atomic.Pointer[map[string]*headerName] // by the name in lower case
	mu    sync.Mutex                             // held while known is replaced
}

// get returns the headerName for a name in lower case.
func (n *headerNames) get(lower string) *headerName {
	if cached := n.known.Load(); cached != nil {
		if name := (*cached)[lower]; name != nil {
			return name
		}
	}
	name := nameOf(strings.Clone(lower))
	return n.add(&name)
}

func (n *headerNames) add(name *headerName) *headerName {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := map[string]*headerName{}
	if cached := n.known.Load(); cached != nil {
		if len(*cached) >= maxNames {
			return name
		}
		next = maps.Clone(*cached)
	}
	next[name.lower] = name
	n.known.Store(&next)
	return name
}

// lines returns the lines of a header as they were sent.
func (a *Attributes) lines(name headerName) []string {
	if a.lowerCase {
		return a.header[name.lower]
	}
	return a.header[name.canonical]
}

// endToEndLines returns the lines of a header, or none if Connection lists the header, because the service does not get
// such a header.
func (a *Attributes) endToEndLines(name headerName) []string {
	lines := a.lines(name)
	if len(lines) > 0 && a.hopByHopKind() != hopByHopNone && a.isHopByHop(name.lower) {
		return nil
	}
	return lines
}

// headerValue returns the value of a header whose name is given in lower case. Several lines are one list (RFC 9110).
// For a header with secrets it returns a hash.
func (a *Attributes) headerValue(lower string) string {
	if lower == nameHost.lower {
		host, _ := a.findHost()
		return host
	}
	if lower == nameAuthorization.lower {
		return a.identifier.authorizationHash(a.findAuthorization())
	}
	value := join(a.endToEndLines(*a.identifier.names.get(lower)))
	if value != "" && isSecret(lower) {
		return a.identifier.hasher.sum(hashedHeader, value)
	}
	return a.identifier.hashIfLong(value)
}

// isSecret reports whether a header contains credentials. The name is in lower case.
func isSecret(lower string) bool {
	switch lower {
	case "authorization", "proxy-authorization", "cookie":
		return true
	default:
		return false
	}
}

// join joins lines to one list. It skips empty lines, and returns "" if the list is longer than maxInputBytes.
func join(lines []string) string {
	switch len(lines) {
	case 0:
		return ""
	case 1:
		return trimAnySpace(lines[0])
	}
	var b strings.Builder
	for _, line := range lines {
		line = trimAnySpace(line)
		if line == "" {
			continue
		}
		if b.Len()+len(line) > maxInputBytes {
			return ""
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(line)
	}
	return b.String()
}
