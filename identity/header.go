package identity

import (
	"maps"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A headerName is the name of a header as net/http has it, and as gRPC has it.
type headerName struct{ canonical, lower string }

func nameOf(name string) headerName {
	return headerName{canonical: textproto.CanonicalMIMEHeaderKey(name), lower: strings.ToLower(name)}
}

// Names that are in use whatever the Config says.
var (
	nameAuthorization = nameOf("Authorization")
	nameConnection    = nameOf("Connection")
	nameCookie        = nameOf("Cookie")
	nameHost          = nameOf("Host")
)

// maxNames bounds the names that are remembered. They come from rules, so there are few.
const maxNames = 4096

// headerNames remembers the canonical form of names, which costs an allocation to make.
type headerNames struct {
	last  [16]atomic.Pointer[headerName] // that were asked for, by where the name asked for is in memory
	known atomic.Pointer[map[string]*headerName]
	mu    sync.Mutex // held by who replaces known
}

// get returns the name, given in lower case.
func (n *headerNames) get(lower string) *headerName {
	// Rules ask with the very same string each time, which is then quicker found than by what it says.
	at := uintptr(unsafe.Pointer(unsafe.StringData(lower)))
	last := &n.last[(at>>3^at>>9)%uintptr(len(n.last))]
	if name := last.Load(); name != nil && name.lower == lower {
		return name
	}
	if known := n.known.Load(); known != nil {
		if name := (*known)[lower]; name != nil {
			last.Store(name)
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
	if known := n.known.Load(); known != nil {
		if len(*known) >= maxNames {
			return name
		}
		next = maps.Clone(*known)
	}
	next[name.lower] = name
	n.known.Store(&next)
	return name
}

// lines returns the lines of a header as they were sent.
func (a *Attributes) lines(name headerName) []string {
	if a.lower {
		return a.header[name.lower]
	}
	return a.header[name.canonical]
}

// endToEnd returns the lines of a header that the service will see too.
func (a *Attributes) endToEnd(name headerName) []string {
	lines := a.lines(name)
	if len(lines) > 0 && a.names() != namesNone && a.nominated(name.lower) {
		return nil
	}
	return lines
}

// headerValue returns the value of a header, given in lower case. Lines that repeat it are one list, as RFC 9110 has it.
// Of a header that holds secrets it returns the hash.
func (a *Attributes) headerValue(lower string) string {
	if lower == nameHost.lower {
		host, _ := a.findHost()
		return host
	}
	if lower == nameAuthorization.lower {
		return a.id.authorizationHash(a.findAuthorization())
	}
	value := join(a.endToEnd(*a.id.names.get(lower)))
	if value != "" && isSecret(lower) {
		return a.id.hasher.sum(hashedHeader, value)
	}
	return a.id.bound(value)
}

// isSecret reports whether a header, given in lower case, holds nothing but credentials.
func isSecret(lower string) bool {
	switch lower {
	case "authorization", "proxy-authorization", "cookie":
		return true
	default:
		return false
	}
}

// join makes one value of lines. Empty ones do not count.
func join(lines []string) string {
	switch len(lines) {
	case 0:
		return ""
	case 1:
		return trimSpace(lines[0])
	}
	var b strings.Builder
	for _, line := range lines {
		line = trimSpace(line)
		if line == "" {
			continue
		}
		if b.Len()+len(line) > maxHashed {
			return ""
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(line)
	}
	return b.String()
}
