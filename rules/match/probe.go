package match

import (
	"net/netip"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/internal/pattern"
	"github.com/headgate/headgate/rules/registry"
)

// cachedSlots is how many attributes a probe caches. A Set numbers those used by most rules first.
const cachedSlots = 8

// A probe reads the attributes of a subject and caches them.
type probe struct {
	subject    rules.Subject
	set        *Set
	cached     uint32       // bit set of slots that are cached
	present    uint32       // bit set of cached slots that have a value
	net        netip.Prefix // the client's address, if netKnown
	netKnown   bool
	source     propertySource  // the client whose properties are read
	hasClients bool            // there are registered clients
	client     registry.Client // the client found by the attribute in clientSlot
	clientSlot int             // noNode before the first lookup
	epoch      *registry.Epoch // at the beginning of the match
	lowerCaser *lowerCaser     // nil if no value had to be converted
	values     [cachedSlots]string
}

// start initializes a zero probe in place, because copying it would take longer than a match of few rules.
func (p *probe) start(s *Set, subject rules.Subject) {
	p.epoch = s.epoch.Load() // first of all: while it hides changes, clientCount may be 0 already
	p.subject, p.set, p.hasClients, p.clientSlot = subject, s, p.epoch != nil || s.clientCount() > 0, noNode
}

// get returns the value of the attribute in a slot. The value is valid until release.
func (p *probe) get(slot int) (string, bool) {
	if p.cached>>slot&1 != 0 {
		return p.values[slot%cachedSlots], p.present>>slot&1 != 0
	}
	src := &p.set.slots[slot]
	if src.attribute.Kind == headgate.AttrClient {
		return p.property(slot, src.attribute.Name)
	}
	value, ok := p.subject.Get(src.attribute)
	if src.norm != 0 {
		value = p.normalized(value, src.norm)
	}
	p.cache(slot, value, ok)
	return value, ok
}

// cache stores the value of the attribute in a slot, or that it has none, if the slot is cached.
func (p *probe) cache(slot int, value string, ok bool) {
	if slot >= cachedSlots {
		return
	}
	p.cached |= 1 << slot
	if ok {
		p.present |= 1 << slot
		p.values[slot] = value
	}
}

// normalized is norm.apply without an allocation for a path.
func (p *probe) normalized(value string, norm normalization) string {
	if norm&normMethod != 0 {
		return norm.apply(value)
	}
	if n := len(value); norm&normTrimSlash != 0 && n > 1 && value[n-1] == '/' {
		value = value[:n-1]
	}
	if norm&normLowerCase != 0 && hasUpperCase(value) {
		if p.lowerCaser == nil {
			p.lowerCaser = lowerCasers.Get().(*lowerCaser)
		}
		value = p.lowerCaser.lower(value)
	}
	return value
}

// release makes the values that get returned invalid, and removes them from the results.
func (p *probe) release(results []Result) {
	if p.lowerCaser == nil {
		return
	}
	for i := range results {
		p.lowerCaser.detach(&results[i])
	}
	p.lowerCaser.release()
	p.lowerCaser = nil
}

// repeats reports whether the attribute in a slot was sent several times with different values.
func (p *probe) repeats(slot int) bool {
	s, ok := p.subject.(rules.Repeater)
	return ok && s.Repeats(p.set.slots[slot].attribute)
}

// address returns the client's address or network, invalid if there is none.
func (p *probe) address() netip.Prefix {
	if p.netKnown {
		return p.net
	}
	p.netKnown = true
	if s, ok := p.subject.(rules.Addressed); ok {
		if addr := s.Addr(); addr.IsValid() {
			addr = addr.Unmap().WithZone("")
			p.net = netip.PrefixFrom(addr, addr.BitLen())
			return p.net
		}
	}
	if text, ok := p.get(slotIP); ok {
		p.net = pattern.ParseNetwork(text)
	}
	return p.net
}
