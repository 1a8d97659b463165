package match

import (
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A propertySource selects the attributes that identify the client whose properties are read. The zero value selects
// those of the set, for the conditions of rules.
type propertySource struct {
	rule     *compiledRule // the rule whose key identifies the client, for its overrides; nil for those of the set
	byIP     bool          // the address replaces the key
	noClient bool          // the request is not counted, so there is no client
}

// clientSlots returns the slots of those attributes, in the order in which they are read.
func (p *probe) clientSlots() []int32 {
	switch source := &p.source; {
	case source.noClient:
		return nil
	case source.byIP:
		return ipSlots
	case source.rule != nil:
		return source.rule.slots[:source.rule.keyCount]
	default:
		return p.set.clientSlots
	}
}

var ipSlots = []int32{slotIP}

// property returns a property of the first client that an attribute identifies and that has the property.
func (p *probe) property(slot int, name string) (value string, ok bool) {
	if !p.hasClients {
		return "", false
	}
	for _, by := range p.clientSlots() {
		if repeatable(p.set.slots[by].attribute.Kind) && p.repeats(int(by)) {
			continue // the client would be ambiguous
		}
		if c, _ := p.set.lookUpSlot(int(by), p); !c.Absent() {
			if value, ok = c.Property(name); ok {
				break
			}
		}
	}
	p.cache(slot, value, ok)
	return value, ok
}

// setPropertyRule selects the client that a rule counts as the source of properties. For a rule without a key the
// source is that of the conditions of rules.
func (p *probe) setPropertyRule(rule *compiledRule) {
	p.source = propertySource{}
	if rule.keyCount > 0 {
		var m Result
		p.source.noClient = !rule.identify(&m, p)
		p.source.rule, p.source.byIP = rule, m.byIP
	}
	p.cached &^= p.set.propertySlots
	p.present &^= p.set.propertySlots
}

// repeatable reports whether a request may contain an attribute several times.
func repeatable(kind headgate.AttributeKind) bool {
	return kind == headgate.AttrHeader || kind == headgate.AttrCookie || kind == headgate.AttrQuery
}

// Properties returns the properties client.<name> of a request's client that conditions of the rules in force use and
// that the client has: as the overrides of that rule see them, or as the conditions of rules do if there is no rule
// with that id.
func (s *Set) Properties(rule string, subject rules.Subject) []rules.Property {
	var p probe
	p.start(s, subject)
	if rank, ok := s.byID[rule]; ok {
		p.setPropertyRule(&s.rules[rank])
	}
	var list []rules.Property
	for slot, src := range s.slots {
		if src.attribute.Kind != headgate.AttrClient {
			continue
		}
		if value, ok := p.get(slot); ok {
			list = append(list, rules.Property{Name: src.attribute.Name, Value: value})
		}
	}
	p.release(nil)
	slices.SortFunc(list, func(a, b rules.Property) int { return strings.Compare(a.Name, b.Name) })
	return list
}
