package identity

import (
	"net/netip"
	"strings"
)

// findHost returns the canonical host, computed once per request.
func (a *Attributes) findHost() (string, error) {
	if a.firstLookup(lookupHost) && a.rawHost != "" {
		a.host, a.hostErr = CanonicalHost(a.rawHost)
	}
	return a.host, a.hostErr
}

// maxHost is the maximum length of a host name in DNS, in bytes.
const maxHost = 253

// CanonicalHost returns the host of a Host header in the form that rules use: in lower case, without port, final dot,
// and brackets around an IPv6 address. The error is a *RequestError.
func CanonicalHost(host string) (string, error) {
	if host != "" && host[0] == '[' {
		return hostAddress(host)
	}
	upper, last, end := false, byte('.'), len(host)
	for i := range len(host) {
		c := host[i]
		if c == ':' {
			if !isPortOrNone(host[i+1:]) {
				return "", badHost(host)
			}
			end = i
			break
		}
		switch hostBytes[c] {
		case plainByte:
		case upperByte:
			upper = true
		case dotByte:
			if last == '.' {
				return "", badHost(host)
			}
		default:
			return "", badHost(host)
		}
		last = c
	}
	name := host[:end]
	if last == '.' && name != "" {
		name = name[:len(name)-1]
	}
	if name == "" || len(name) > maxHost {
		return "", badHost(host)
	}
	if upper {
		name = strings.ToLower(name)
	}
	return name, nil
}

// The kinds of bytes in names of hosts.
const (
	badByte = iota
	plainByte
	upperByte
	dotByte
)

var hostBytes = func() (kinds [256]uint8) {
	for c := range kinds {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			kinds[c] = plainByte
		case c >= 'A' && c <= 'Z':
			kinds[c] = upperByte
		case c == '.':
			kinds[c] = dotByte
		}
	}
	return kinds
}()

func hostAddress(host string) (string, error) {
	end := strings.IndexByte(host, ']')
	if end < 0 || host[end+1:] != "" && (host[end+1] != ':' || !isPortOrNone(host[end+2:])) {
		return "", badHost(host)
	}
	addr, err := netip.ParseAddr(host[1:end])
	if err != nil || addr.Zone() != "" || addr.Is4() {
		return "", badHost(host)
	}
	return addr.String(), nil
}

// isPortOrNone reports whether the text after a colon is a port, or empty.
func isPortOrNone(port string) bool {
	if len(port) > 5 {
		return false
	}
	n := 0
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return false
		}
		n = 10*n + int(port[i]-'0')
	}
	return n <= 65535
}

func badHost(host string) error {
	return malformed("host", quote(host), "a name such as api.example.com or an address, with or without a port")
}
