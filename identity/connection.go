package identity

import (
	"net/textproto"
	"strconv"
	"strings"
)

// A header that Connection names is meant for the next server only: a proxy removes it. One that a client names so would be
// seen here and not by the service, or by nobody if a proxy before us removes its own. So it does not count here either,
// and a request that names one that tells who is asking is malformed. Only the forwarding header is read all the same:
// from a trusted proxy it is meant for us, and without it a client would take on the proxy's address.

// nomination is what is known of the names in Connection.
type nomination uint8

const (
	namesUnknown nomination = iota
	namesNone               // nothing that is a header
	namesSome
	namesAll // too many to look at
)

// maxConnection is how long Connection may be, in bytes.
const maxConnection = 1 << 10

// names looks at Connection, once.
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
		for line != "" {
			var option string
			option, line, _ = strings.Cut(line, ",")
			if option = trim(option); option != "" && !isOption(option) {
				found = namesSome
			}
		}
	}
	return found
}

// isOption reports whether a name in Connection is there as a rule, and hides no header from anybody: who speaks HTTP sends
// Upgrade and TE with it.
func isOption(name string) bool {
	return strings.EqualFold(name, "keep-alive") || strings.EqualFold(name, "close") || strings.EqualFold(name, "upgrade") ||
		strings.EqualFold(name, "te")
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
		for line != "" {
			var option string
			option, line, _ = strings.Cut(line, ",")
			if strings.EqualFold(trim(option), lower) {
				return true
			}
		}
	}
	return false
}

// checkConnection reports a Connection that names a header which tells who is asking.
func (a *Attributes) checkConnection() error {
	switch a.names() {
	case namesSome:
	case namesAll:
		return malformed("header Connection", "", "at most "+strconv.Itoa(maxConnection)+" bytes")
	default:
		return nil
	}
	for _, name := range a.id.telling() {
		if name.lower != "" && a.nominated(name.lower) {
			return malformed("header Connection", strconv.Quote(name.canonical), "no header that tells who is asking")
		}
	}
	return nil
}

// telling are the headers that tell who is asking, some of them empty.
func (id *Identifier) telling() [6]headerName {
	return [...]headerName{id.forwards, id.apiKey, id.user, nameAuthorization, nameCookie, nameHost}
}

// TellsWho reports whether a header, by its canonical name, is one by which it is told who is asking. Such a header counts in
// the head of a request alone, so who passes requests on removes it from trailers, which a service may take for headers.
func (id *Identifier) TellsWho(canonical string) bool {
	for _, name := range id.telling() {
		if canonical != "" && name.canonical == canonical {
			return true
		}
	}
	return false
}

// RemoveNominated removes from the header what its Connection names, but for what HTTP itself reads (Upgrade, TE). Rules do
// not see these headers, so who passes a request on that they have decided removes them first, or the service would go by
// what rules did not. It reports whether there were any. Names are in their canonical form.
func RemoveNominated(header map[string][]string) (removed bool) {
	for _, line := range header["Connection"] {
		for line != "" {
			var option string
			option, line, _ = strings.Cut(line, ",")
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
