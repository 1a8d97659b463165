package identity

import (
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// A header that is listed in Connection is hop-by-hop: it is for the next server only, and a proxy removes it. A client
// could list a header to hide it from the service. So the attributes do not include listed headers, and a request is
// malformed if it lists a header that identifies the client. The forwarding header is read even if it is listed: a
// trusted proxy sends it to this server, and without it the client would have the proxy's address.

// hopByHopHeaders says whether Connection lists no header, some headers or too many.
type hopByHopHeaders uint8

const (
	hopByHopUnknown hopByHopHeaders = iota
	hopByHopNone
	hopByHopSome
	hopByHopAll // too many to check, so all headers count as listed
)

// maxConnection is the maximum length of Connection in bytes.
const maxConnection = 1 << 10

// hopByHopKind returns whether Connection lists headers. It is parsed once per request.
func (a *Attributes) hopByHopKind() hopByHopHeaders {
	if a.hopByHop == hopByHopUnknown {
		a.hopByHop = hopByHopNone
		if lines := a.lines(nameConnection); len(lines) > 0 {
			a.hopByHop = parseConnection(lines)
		}
	}
	return a.hopByHop
}

func parseConnection(lines []string) hopByHopHeaders {
	result, size := hopByHopNone, 0
	for _, line := range lines {
		if size += len(line) + 1; size > maxConnection {
			return hopByHopAll
		}
		for option := range strings.SplitSeq(line, ",") {
			if option = trimBlanks(option); option != "" && !isConnectionOption(option) {
				result = hopByHopSome
			}
		}
	}
	return result
}

// isConnectionOption reports whether a name in Connection is an option such as keep-alive, and not the name of a
// header.
func isConnectionOption(name string) bool {
	return strings.EqualFold(name, "keep-alive") || strings.EqualFold(name, "close") ||
		strings.EqualFold(name, "upgrade") || strings.EqualFold(name, "te")
}

// isHopByHop reports whether Connection lists the header, given in lower case.
func (a *Attributes) isHopByHop(lower string) bool {
	switch a.hopByHopKind() {
	case hopByHopSome:
		if isConnectionOption(lower) {
			return false
		}
	case hopByHopAll:
		return lower != nameConnection.lower
	default:
		return false
	}
	for _, line := range a.lines(nameConnection) {
		for option := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(trimBlanks(option), lower) {
				return true
			}
		}
	}
	return false
}

// checkConnection returns an error if Connection lists a header that identifies the client.
func (a *Attributes) checkConnection() error {
	switch a.hopByHopKind() {
	case hopByHopSome:
	case hopByHopAll:
		return malformed("header Connection", "", "at most "+strconv.Itoa(maxConnection)+" bytes")
	default:
		return nil
	}
	for _, name := range a.identifier.identifyingHeaders() {
		if name.lower != "" && a.isHopByHop(name.lower) {
			return malformed("header Connection", strconv.Quote(name.canonical), "no header that identifies the client")
		}
	}
	return nil
}

// identifyingHeaders returns the headers that identify the client. The name of an unused header is empty.
func (ident *Identifier) identifyingHeaders() [6]headerName {
	return [...]headerName{ident.forwardingHeader, ident.apiKey, ident.user, nameAuthorization, nameCookie, nameHost}
}

// Identifies reports whether a header, given by its canonical name, identifies the client. A proxy must remove such
// fields from trailers, because a service may treat trailers like headers.
func (ident *Identifier) Identifies(canonical string) bool {
	names := ident.identifyingHeaders()
	return canonical != "" && slices.ContainsFunc(names[:], func(n headerName) bool { return n.canonical == canonical })
}

// RemoveHopByHop removes the headers that Connection lists, except Upgrade and TE, and reports whether there were any.
// The names in header are in canonical form. A middleware must call RemoveHopByHop before it passes a request on,
// because rules ignore listed headers and the service must not see headers that rules ignore.
func RemoveHopByHop(header map[string][]string) (removed bool) {
	for _, line := range header["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			if option = trimBlanks(option); option == "" || isConnectionOption(option) {
				continue
			}
			name := textproto.CanonicalMIMEHeaderKey(option)
			if _, found := header[name]; found {
				delete(header, name)
				removed = true
			}
		}
	}
	return removed
}
