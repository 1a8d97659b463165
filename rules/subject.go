package rules

import (
	"net/netip"
	"strings"

	"github.com/headgate/headgate"
)

// A Subject holds the attributes of a request. Get returns the value of an attribute and whether there is one. Hosts
// are in lower case and have no port. Paths are in the form in which they are forwarded: without segments . and .., and
// escaped only where necessary. An ip is an address or a network as netip formats them. A value must not change until
// the request has been decided.
type Subject interface {
	Get(headgate.Attribute) (string, bool)
}

// An Addressed subject knows the client's full address. Conditions on ip compare it instead of the value of Get, which
// may be the network that an IPv6 client is counted by.
type Addressed interface {
	Subject
	// Addr returns the address, or the zero Addr if it is unknown.
	Addr() netip.Addr
}

// A Repeater is a subject that knows which attributes were sent several times with different values. If a rule counts
// by such an attribute, the client could pretend to be another each time, so the request is denied.
type Repeater interface {
	Subject
	Repeats(headgate.Attribute) bool
}

// Attributes is a Subject made of values, for tests and for callers that know attributes only by name.
type Attributes map[headgate.Attribute]string

var _ Subject = Attributes(nil)

// Get returns the value of an attribute.
func (a Attributes) Get(attribute headgate.Attribute) (string, bool) {
	value, ok := a[attribute]
	return value, ok
}

// canonicalMethod returns a method in upper case: many services treat post as POST, so it must not evade a rule or
// count as another client. It allocates nothing for the usual methods.
func canonicalMethod(method string) string {
	for i := range len(method) {
		if c := method[i]; c < 'A' || c > 'Z' {
			return upperMethod(method)
		}
	}
	return method
}

func upperMethod(method string) string {
	for _, usual := range [...]string{"GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		if strings.EqualFold(method, usual) {
			return usual
		}
	}
	return strings.ToUpper(method)
}

// parseNet parses an address or a network, and returns an invalid prefix for anything else. It allocates nothing for
// valid input.
func parseNet(text string) netip.Prefix {
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
