package pattern

import (
	"net/netip"
	"strings"

	"github.com/headgate/headgate"
)

// CanonicalValue returns a value in the form in which a Subject returns it.
func CanonicalValue(kind headgate.AttributeKind, value string) string {
	switch kind {
	case headgate.AttrHost:
		return canonicalHost(value)
	case headgate.AttrMethod:
		return strings.ToUpper(value)
	case headgate.AttrIP:
		if net := ParseNetwork(value); net.IsSingleIP() {
			return net.Addr().String()
		} else if net.IsValid() {
			return net.String()
		}
	}
	return value
}

// canonicalHost returns a host in the form in which a Subject returns it: in lower case, and an IPv6 address without
// brackets.
func canonicalHost(text string) string {
	text = strings.ToLower(text)
	bare := text
	if inside, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inside, "]") {
		bare = inside[:len(inside)-1]
	}
	if addr, err := netip.ParseAddr(bare); err == nil && addr.Is6() {
		return addr.String()
	}
	return text
}

// ParseNetwork parses an address or a network, and returns an invalid prefix for anything else. It allocates nothing
// for valid input.
func ParseNetwork(text string) netip.Prefix {
	slash := -1
	for i := len(text) - 1; i >= 0 && i >= len(text)-4; i-- {
		if text[i] == '/' {
			slash = i
			break
		}
	}
	if slash >= 0 {
		net, err := netip.ParsePrefix(text)
		if err != nil {
			return netip.Prefix{}
		}
		if net.Addr().Is4In6() && net.Bits() >= 96 {
			net = netip.PrefixFrom(net.Addr().Unmap(), net.Bits()-96)
		}
		return net.Masked()
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}
	}
	addr = addr.Unmap().WithZone("")
	return netip.PrefixFrom(addr, addr.BitLen())
}

// IsToken reports whether a text is an HTTP token, as methods and header names are.
func IsToken(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return text != ""
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
