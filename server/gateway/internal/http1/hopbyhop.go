package http1

import (
	"net/http"
	"net/textproto"
	"strings"
)

// IsHopByHop reports whether a field, given by its canonical name, concerns one connection only (RFC 9110 section
// 7.6.1).
func IsHopByHop(canonical string) bool {
	switch canonical {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Http2-Settings":
		return true
	default:
		return false
	}
}

// reservedNames has the names of hop-by-hop fields, and Host, Expect and Content-Length. They are indexed by their
// length, so that IsReserved compares other names with few of them.
var reservedNames = func() (byLength [20][]string) {
	for _, name := range []string{
		"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Http2-Settings", "Host", "Expect", "Content-Length",
	} {
		byLength[len(name)] = append(byLength[len(name)], name)
	}
	return byLength
}()

// IsReserved reports whether a field is hop-by-hop, Host, Expect or Content-Length. A proxy does not forward these
// fields, but sets them itself if necessary. The name may be in any case.
func IsReserved(name string) bool {
	if len(name) >= len(reservedNames) {
		return false
	}
	for _, reserved := range reservedNames[len(name)] {
		if strings.EqualFold(reserved, name) {
			return true
		}
	}
	return false
}

// IsPlainConnection reports whether the lines of a Connection field name no other field. It recognizes only the common
// values, so it may return false even if no other field is named.
func IsPlainConnection(lines []string) bool {
	switch len(lines) {
	case 0:
		return true
	case 1:
		line := lines[0]
		return line == "keep-alive" || line == "close" || line == "Keep-Alive" || line == "Close"
	default:
		return false
	}
}

// RemoveNominated removes the fields that Connection names. It reports whether Connection names Upgrade. If it does
// not, the field Upgrade has no effect.
func RemoveNominated(h http.Header) (upgrade bool) {
	for option := range Elements(h["Connection"]...) {
		switch {
		case strings.EqualFold(option, "close"), strings.EqualFold(option, "keep-alive"), strings.EqualFold(option, "te"):
		case strings.EqualFold(option, "upgrade"):
			upgrade = true
		default:
			delete(h, textproto.CanonicalMIMEHeaderKey(option))
		}
	}
	return upgrade
}

// RemoveHopByHop removes hop-by-hop fields and the fields that Connection names from the header of a response. It keeps
// Proxy-Authenticate, which a service may send to clients.
func RemoveHopByHop(h http.Header) {
	if len(h["Connection"]) > 0 {
		RemoveNominated(h)
	}
	for name := range h {
		if IsHopByHop(name) && name != "Proxy-Authenticate" {
			delete(h, name)
		}
	}
}

// ChooseUpgrade returns the first protocol of an Upgrade field that is in allowed, spelled as in allowed, or
// "".
func ChooseUpgrade(lines, allowed []string) string {
	for protocol := range Elements(lines...) {
		for _, name := range allowed {
			if strings.EqualFold(protocol, name) {
				return name
			}
		}
	}
	return ""
}

// CarriesHTTP reports whether a protocol that a connection can be upgraded to carries HTTP requests.
func CarriesHTTP(protocol string) bool {
	name, _, _ := strings.Cut(strings.ToLower(protocol), "/")
	return name == "h2c" || name == "h2" || name == "http" || name == "tls" || name == "*"
}
