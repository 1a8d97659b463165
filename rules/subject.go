package rules

import (
	"net/netip"

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

// A NameLister is a subject that can list the names of its headers, cookies, query parameters or descriptor entries. If
// rules use many names, only the names that the request has are looked up.
type NameLister interface {
	Subject
	// AppendNames appends the names of all attributes of a kind that Get has a value for, and returns true. Header names
	// are in lower case or in the canonical form of net/http. Names may be repeated, and there may be others. It returns
	// false if the names of that kind are unknown.
	AppendNames(dst []string, kind headgate.AttributeKind) (names []string, ok bool)
}

// Attributes is a Subject made of values, for tests and for callers that know attributes only by name.
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
