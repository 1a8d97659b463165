package match

import (
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A propertySource selects the attributes that identify the client whose properties are read. The zero value selects
// Set.clientAttrs, for the conditions of rules.
type propertySource struct {
	rule     *compiledRule // the rule whose key identifies the client, for its overrides; nil for conditions of rules
	byIP     bool          // the address identifies the client, because an attribute of the key is missing
	noClient bool          // the request is not counted, so there is no client
}

// clientAttrs returns the numbers of the attributes that identify the client, in the order in which they are read.
func (p *probe) clientAttrs() []int32 {
	switch source := &p.source; {
	case source.noClient:
		return nil
	case source.byIP:
		return ipAttrs
	case source.rule != nil:
		return source.rule.attrs[:source.rule.keyCount]
	default:
		return p.set.clientAttrs
	}
}

var ipAttrs = []int32{attrIP}

// property returns the client's property with a name. If several attributes identify clients, it returns the property
// of the first client that has one.
func (p *probe) property(attr int, name string) (value string, ok bool) {
	if !p.hasClients {
		return "", false
	}
	for _, identifying := range p.clientAttrs() {
		if repeatable(p.set.attrs[identifying].attribute.Kind) && p.repeats(int(identifying)) {
			continue // the values may identify different clients
		}
		if c, _ := p.set.lookUpAttr(int(identifying), p); !c.Absent() {
			if value, ok = c.Property(name); ok {
				break
			}
		}
	}
	p.cache(attr, value, ok)
	return value, ok
}

// setPropertyRule makes get read the properties of the client that a rule counts. For a rule without a key, get reads
// the same properties as for the conditions of rules.
func (p *probe) setPropertyRule(rule *compiledRule) {
	p.source = propertySource{}
	if rule.keyCount > 0 {
		var m Result
		p.source.noClient = !rule.identify(&m, p)
		p.source.rule, p.source.byIP = rule, m.byIP
	}
	p.cached &^= p.set.propertyAttrs
	p.present &^= p.set.propertyAttrs
}

// repeatable reports whether a request may contain attributes of this kind several times.
func repeatable(kind headgate.AttributeKind) bool {
	return kind == headgate.AttrHeader || kind == headgate.AttrCookie || kind == headgate.AttrQuery
}

// Properties returns the properties of a request's client that conditions use as client.<name>. They are those that the
// conditions of the given rule's overrides use or, if there is no rule with that id, those that the conditions of rules
// use.
func (s *Set) Properties(rule string, subject rules.Subject) []rules.Property {
	var p probe
	p.start(s, subject)
	if rank, ok := s.byID[rule]; ok {
		p.setPropertyRule(&s.rules[rank])
	}
	var list []rules.Property
	for attr, src := range s.attrs {
		if src.attribute.Kind != headgate.AttrClient {
			continue
		}
		if value, ok := p.get(attr); ok {
			list = append(list, rules.Property{Name: src.attribute.Name, Value: value})
		}
	}
	p.release(nil)
	slices.SortFunc(list, func(a, b rules.Property) int { return strings.Compare(a.Name, b.Name) })
	return list
}
