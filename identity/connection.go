package identity

import (
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// A header that Connection names is for the next server only: a proxy removes it. If a client names one, rules would
// see it but the service would not. So it is ignored here too, and a request that names a header which identifies the
// client is malformed. Only the forwarding header is read nevertheless: a trusted proxy means it for this server, and
// without it a client would get the proxy's address.

// A nomination is what Connection names.
type nomination uint8

const (
	namesUnknown nomination = iota
	namesNone               // no header
	namesSome
	namesAll // too many to check, so all count as named
)

// maxConnection is the maximum length of Connection in bytes.
const maxConnection = 1 << 10

// names parses Connection, once per request.
func (a *Attributes) names() nomination {
	if a.named == namesUnknown {
		a.named = namesNone
		if lines := a.lines(nameConnection); len(lines) > 0 {
			a.named = nominations(lines)
		}
	}
	return a.named
}

func nominations(lines []string) nomination {
	found, size := namesNone, 0
	for _, line := range lines {
		if size += len(line) + 1; size > maxConnection {
			return namesAll
		}
		for option := range strings.SplitSeq(line, ",") {
			if option = trim(option); option != "" && !isOption(option) {
				found = namesSome
			}
		}
	}
	return found
}

// isOption reports whether a name in Connection is an ordinary option of HTTP, and not the name of another header.
func isOption(name string) bool {
	return strings.EqualFold(name, "keep-alive") || strings.EqualFold(name, "close") ||
		strings.EqualFold(name, "upgrade") || strings.EqualFold(name, "te")
}

// nominated reports whether Connection names the header, given in lower case.
func (a *Attributes) nominated(lower string) bool {
	switch a.names() {
	case namesSome:
		if isOption(lower) {
			return false
		}
	case namesAll:
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

// checkConnection returns an error if Connection names a header that identifies the client.
func (a *Attributes) checkConnection() error {
	switch a.names() {
	case namesSome:
	case namesAll:
		return malformed("header Connection", "", "at most "+strconv.Itoa(maxConnection)+" bytes")
	default:
		return nil
	}
	for _, name := range a.id.identifying() {
		if name.lower != "" && a.nominated(name.lower) {
			return malformed("header Connection", strconv.Quote(name.canonical), "no header that identifies the client")
		}
	}
	return nil
}

// identifying returns the headers that identify the client. Some may be empty.
func (id *Identifier) identifying() [6]headerName {
	return [...]headerName{id.forwards, id.apiKey, id.user, nameAuthorization, nameCookie, nameHost}
}

// Identifies reports whether a header, given by its canonical name, identifies the client. A proxy must remove such a
// field from trailers, because a service may take trailers for headers.
func (id *Identifier) Identifies(canonical string) bool {
	names := id.identifying()
	return canonical != "" && slices.ContainsFunc(names[:], func(n headerName) bool { return n.canonical == canonical })
}

// RemoveNominated removes the headers that Connection names, except Upgrade and TE. Rules do not see them, so a
// middleware must remove them before it passes the request on, or the service would see headers that rules have not. It
// reports whether it has removed any. Names are in canonical form.
func RemoveNominated(header map[string][]string) (removed bool) {
	for _, line := range header["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			if option = trim(option); option == "" || isOption(option) {
				continue
			}
			name := textproto.CanonicalMIMEHeaderKey(option)
			if _, there := header[name]; there {
				delete(header, name)
				removed = true
			}
		}
	}
	return removed
}
