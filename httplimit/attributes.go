package httplimit

import (
	"maps"
	"net/http"
	"net/netip"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
)

// subject returns the attributes of a request: those of its client, and those of Config.Attributes.
func (l *limiter) subject(r *http.Request, attributes *identity.Attributes) rules.Subject {
	if l.Attributes == nil {
		return attributes
	}
	if replacements := l.Attributes(r); len(replacements) > 0 {
		return replacedSubject{attributes, lowerHeaders(replacements)}
	}
	return attributes
}

// lowerHeaders returns the attributes with the names of headers in lower case, as rules write them.
func lowerHeaders(list rules.Attributes) rules.Attributes {
	var lowered rules.Attributes
	for a, value := range list {
		lower := headgate.Attribute{Kind: a.Kind, Name: strings.ToLower(a.Name)}
		if a.Kind != headgate.AttrHeader || lower == a {
			continue
		}
		if lowered == nil {
			lowered = maps.Clone(list) // the program may use its map for other requests
		}
		delete(lowered, a)
		if _, ok := list[lower]; !ok {
			lowered[lower] = value
		}
	}
	if lowered == nil {
		return list
	}
	return lowered
}

// A replacedSubject is a subject in which Config.Attributes has replaced some attributes of the client.
type replacedSubject struct {
	*identity.Attributes
	replacements rules.Attributes
}

var (
	_ rules.Addressed  = replacedSubject{}
	_ rules.Repeater   = replacedSubject{}
	_ rules.NameLister = replacedSubject{}
)

// Get returns the value of an attribute.
func (s replacedSubject) Get(a headgate.Attribute) (string, bool) {
	if value, ok := s.replacements[a]; ok {
		return value, true
	}
	return s.Attributes.Get(a)
}

// Addr returns the client's address, or the zero Addr if Config.Attributes has replaced it by a text that is not an
// address.
func (s replacedSubject) Addr() netip.Addr {
	value, ok := s.replacements[headgate.Attribute{Kind: headgate.AttrIP}]
	if !ok {
		return s.Attributes.Addr()
	}
	addr, err := netip.ParseAddr(value)
	if err != nil {
		return netip.Addr{}
	}
	return addr
}

// Repeats reports whether the client has sent different values of an attribute that was not replaced.
func (s replacedSubject) Repeats(a headgate.Attribute) bool {
	if _, ok := s.replacements[a]; ok {
		return false
	}
	return s.Attributes.Repeats(a)
}

// AppendNames appends the names of the attributes of a kind.
func (s replacedSubject) AppendNames(dst []string, kind headgate.AttributeKind) (names []string, ok bool) {
	dst, ok = s.Attributes.AppendNames(dst, kind)
	if !ok {
		return dst, false
	}
	return s.replacements.AppendNames(dst, kind)
}
