package rules

import (
	"net/netip"

	"github.com/headgate/headgate"
)

// A Subject has the attributes of a request.
//
// Get returns the value of an attribute, and whether the request has it. Hosts are in lower case and have no port.
// Paths have no segments "." and "..", and are escaped only where necessary. The value of ip is an address or a network
// as package netip formats it. A value must not change until the request has been decided.
type Subject interface {
	Get(headgate.Attribute) (string, bool)
}

// An Addressed subject knows the client's full address. Conditions on ip test the full address, because the value of
// Get may be only the network that an IPv6 client is counted by.
type Addressed interface {
	Subject
	// Addr returns the address, or the zero Addr if it is unknown.
	Addr() netip.Addr
}

// A Repeater is a subject that knows which attributes a request has several times with different values. If a rule
// counts by such an attribute, the request is denied: the service may use another of the values than the rule.
type Repeater interface {
	Subject
	// Repeats reports whether the request has the attribute several times with different values.
	Repeats(headgate.Attribute) bool
}

// A NameLister is a subject that can list the names of its headers, cookies, query parameters or descriptor entries.
// This makes matching faster if rules test many names and a request has few of them.
type NameLister interface {
	Subject
	// AppendNames appends the names of all attributes of a kind for which Get returns a value, and returns true. Header
	// names are in lower case or in the canonical form of net/http. The list may contain duplicates, and names for which
	// Get returns no value. AppendNames returns false if the names of that kind are unknown.
	AppendNames(dst []string, kind headgate.AttributeKind) (names []string, ok bool)
}

// Attributes is a Subject that holds its values in a map, for tests and for callers that have no request.
type Attributes map[headgate.Attribute]string

var _ NameLister = Attributes(nil)

// Get returns the value of an attribute.
func (a Attributes) Get(attribute headgate.Attribute) (string, bool) {
	value, ok := a[attribute]
	return value, ok
}

// AppendNames appends the names of the attributes of a kind.
func (a Attributes) AppendNames(dst []string, kind headgate.AttributeKind) ([]string, bool) {
	for attribute := range a {
		if attribute.Kind == kind {
			dst = append(dst, attribute.Name)
		}
	}
	return dst, true
}
