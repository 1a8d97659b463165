package rules

import (
	"net/netip"
	"strings"

	"github.com/headgate/headgate"
)

// A Subject is what is known of a request. Get returns the value of an attribute and whether there is one. Hosts are in
// lower case and have no port, paths are as they are sent on, without segments . and .. and escaped as little as can be,
// and an ip is an address or a network as netip writes them. The value must stay as it is until the request has been
// decided.
type Subject interface {
	Get(headgate.Attribute) (string, bool)
}

// An Addressed subject knows the client's whole address, which conditions on ip then compare, instead of what Get says:
// that may be the network by which a client of IPv6 is counted.
type Addressed interface {
	Subject
	// Addr returns the address, or the zero Addr if it is not known.
	Addr() netip.Addr
}

// A Repeater is a subject that knows which attributes were sent several times with different values. Who is counted by one of
// them could be another client each time, so such a request is denied.
type Repeater interface {
	Subject
	Repeats(headgate.Attribute) bool
}

// Attributes is a Subject made of values, for tests and for callers who know attributes only by name.
type Attributes map[headgate.Attribute]string

var _ Subject = Attributes(nil)

// Get returns the value of an attribute.
func (a Attributes) Get(attribute headgate.Attribute) (string, bool) {
	value, ok := a[attribute]
	return value, ok
}

// usualMethod returns a method in upper case: many services take post for POST, so it must be no way around a rule, and no
// other client.
func usualMethod(method string) string { return strings.ToUpper(method) }

// valueOf returns the value of an attribute as it stands in keys.
func valueOf(s Subject, a headgate.Attribute) string {
	switch a.Kind {
	case headgate.AttrPath, headgate.AttrSegment, headgate.AttrMethod:
		value, _ := getFormed(s, a)
		return value
	default:
		value, _ := s.Get(a)
		return value
	}
}

// getFormed returns the value of an attribute that may be a form of one.
func getFormed(s Subject, a headgate.Attribute) (string, bool) {
	a, form := unformed(a)
	value, ok := s.Get(a)
	if a.Kind == headgate.AttrMethod {
		value = usualMethod(value)
	}
	if form != "" {
		value = inForm(value, form)
	}
	return value, ok
}

// cachedSlots is how many attributes a probe remembers. A Set numbers those that most rules look at first.
const cachedSlots = 8

// A probe asks a subject, for each attribute once.
type probe struct {
	subject  Subject
	set      *Set
	asked    uint32       // which values are known
	has      uint32       // which of those there are
	net      netip.Prefix // the client's address, once it was asked for
	netKnown bool
	whose    whose // whose properties are asked for
	clients  bool  // there are registered clients
	client   found // the client of the value in clientOf
	clientOf int   // a slot, noNode before anybody was looked up
	// clientSure tells that it is that client's value for sure.
	clientSure bool
	era        *era   // in which it began
	complete   uint64 // the keys, by number, of which every attribute is there
	values     [cachedSlots]string
}

// of prepares a zero probe. It is set in place because copying it would take longer than a match of few rules.
func (p *probe) of(s *Set, subject Subject) {
	p.era = s.shown.Load() // before anything else is looked at; while it hides something there may be nobody left to count
	p.subject, p.set, p.clients, p.clientOf = subject, s, p.era != nil || s.clients() > 0, noNode
}

// get returns the value of the attribute in a slot.
func (p *probe) get(slot int) (string, bool) {
	if p.asked>>slot&1 != 0 {
		return p.values[slot%cachedSlots], p.has>>slot&1 != 0
	}
	a := &p.set.slots[slot]
	var value string
	var ok bool
	switch a.Kind {
	case headgate.AttrClient:
		return p.property(slot, a.Name)
	case headgate.AttrMethod:
		value, ok = getFormed(p.subject, *a)
	case headgate.AttrPath, headgate.AttrSegment:
		if strings.IndexByte(a.Name, formMark[0]) >= 0 {
			value, ok = getFormed(p.subject, *a)
			break
		}
		fallthrough
	default:
		value, ok = p.subject.Get(*a)
	}
	if slot < cachedSlots {
		bit := uint32(1) << slot
		p.asked |= bit
		if ok {
			p.has |= bit
			p.values[slot] = value
		}
	}
	return value, ok
}

// repeats tells whether the attribute in a slot was sent several times with different values.
func (p *probe) repeats(slot int) bool {
	s, ok := p.subject.(Repeater)
	return ok && s.Repeats(p.set.slots[slot])
}

// address returns the client's address or network, invalid if there is none.
func (p *probe) address() netip.Prefix {
	if p.netKnown {
		return p.net
	}
	p.netKnown = true
	if s, ok := p.subject.(Addressed); ok {
		if addr := s.Addr(); addr.IsValid() {
			addr = addr.Unmap().WithZone("")
			p.net = netip.PrefixFrom(addr, addr.BitLen())
			return p.net
		}
	}
	if text, ok := p.get(slotIP); ok {
		p.net = parseNet(text)
	}
	return p.net
}

// parseNet reads an address or a network, and returns an invalid one for anything else. It allocates nothing for what
// is right.
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
