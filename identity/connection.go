package identity

import (
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// A header that is listed in Connection is hop-by-hop: it is for the next server only, and a proxy removes it. If a
// client lists one, rules would see it but the service would not. So such headers are ignored here too, and a request
// that lists a header which identifies the client is malformed. The forwarding header is read nevertheless: a trusted
// proxy sends it to this server, and without it a client would get the proxy's address.

// hopByHopHeaders states whether Connection lists no header, some headers or too many.
type hopByHopHeaders uint8

const (
	hopByHopUnknown hopByHopHeaders = iota
	hopByHopNone
	hopByHopSome
	hopByHopAll // too many to check, so all headers count as listed
)

// maxConnection is the maximum length of Connection in bytes.
const maxConnection = 1 << 10

// hopByHopKind parses Connection, once per request.
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
			if option = trim(option); option != "" && !isConnectionOption(option) {
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
			if strings.EqualFold(trim(option), lower) {
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
	for _, name := range a.id.identifyingHeaders() {
		if name.lower != "" && a.isHopByHop(name.lower) {
			return malformed("header Connection", strconv.Quote(name.canonical), "no header that identifies the client")
		}
	}
	return nil
}

// identifyingHeaders returns the headers that identify the client. Unused ones are empty.
func (id *Identifier) identifyingHeaders() [6]headerName {
	return [...]headerName{id.forwardingHeader, id.apiKey, id.user, nameAuthorization, nameCookie, nameHost}
}

// Identifies reports whether a header, given by its canonical name, identifies the client. A proxy must remove such
// fields from trailers, because a service may treat trailers like headers.
func (id *Identifier) Identifies(canonical string) bool {
	names := id.identifyingHeaders()
	return canonical != "" && slices.ContainsFunc(names[:], func(n headerName) bool { return n.canonical == canonical })
}

// RemoveHopByHop removes the headers that Connection lists, except Upgrade and TE, and reports whether there were any.
// Rules do not see these headers, so a middleware must remove them before it passes the request on: otherwise the
// service would see headers that the rules have not seen. Names are in canonical form.
func RemoveHopByHop(header map[string][]string) (removed bool) {
	for _, line := range header["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			if option = trim(option); option == "" || isConnectionOption(option) {
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
