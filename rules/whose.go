package rules

import "github.com/headgate/headgate"

// whose says by which attributes the client is found whose properties are asked for. The zero whose is by those of the set, as
// conditions of rules do.
type whose struct {
	rule *compiled // by its key, as its overrides do; nil for those of the set
	byIP bool      // by the address in place of the key
	none bool      // there is nobody: the request is not counted
}

// namers returns the slots of those attributes, in the order in which they are asked.
func (p *probe) namers() []int32 {
	switch w := &p.whose; {
	case w.none:
		return nil
	case w.byIP:
		return onlyIP
	case w.rule != nil:
		return w.rule.slots[:w.rule.count]
	default:
		return p.set.namers
	}
}

var onlyIP = []int32{slotIP}

// property returns a property of the client: of the first that an attribute names and that has it.
func (p *probe) property(slot int, name string) (value string, ok bool) {
	if !p.clients {
		return "", false
	}
	for _, by := range p.namers() {
		if repeatable(p.set.slots[by].Kind) && p.repeats(int(by)) {
			continue // it could be anybody
		}
		c, _ := p.set.lookUpSlot(int(by), false, p)
		if value, ok = c.described().get(name); ok {
			break
		}
	}
	if slot < cachedSlots {
		p.asked |= 1 << slot
		if ok {
			p.has |= 1 << slot
			p.values[slot] = value
		}
	}
	return value, ok
}

// turn has properties be those of the client whom a rule counts. If it has no key, they stay those that conditions of rules see.
func (p *probe) turn(to *compiled) {
	p.whose = whose{}
	if to.count > 0 {
		var m Matched
		p.whose.none = !to.identify(&m, p)
		p.whose.rule, p.whose.byIP = to, m.byIP
	}
	p.asked &^= p.set.described
	p.has &^= p.set.described
}

// repeatable tells whether a request may say an attribute several times.
func repeatable(kind headgate.AttributeKind) bool {
	return kind == headgate.AttrHeader || kind == headgate.AttrCookie || kind == headgate.AttrQuery
}

// Properties returns what client.<name> is of a request, for every name that conditions of the rules in force ask for and that
// the client has: as the overrides of that rule see it, or as the conditions of rules do if there is no rule of that id.
func (s *Set) Properties(rule string, subject Subject) []Property {
	var p probe
	p.of(s, subject)
	if rank, ok := s.byID[rule]; ok {
		p.turn(&s.rules[rank])
	}
	var list []Property
	for slot, a := range s.slots {
		if a.Kind != headgate.AttrClient {
			continue
		}
		if value, ok := p.get(slot); ok {
			list = append(list, Property{a.Name, value})
		}
	}
	return sortedProperties(list)
}
