package match

import (
	"net/netip"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/internal/pattern"
	"github.com/headgate/headgate/rules/registry"
)

// cachedAttrs is the number of attributes that a probe caches: those with the lowest numbers, which most rules use.
const cachedAttrs = 8

// A probe reads the attributes of a subject and caches them.
type probe struct {
	subject    rules.Subject
	set        *Set
	cached     uint32       // bit set: the numbers of the attributes that are cached
	present    uint32       // bit set: the numbers of the cached attributes that have a value
	net        netip.Prefix // the client's address or network, if netKnown
	netKnown   bool
	source     propertySource  // says which client's properties are read
	hasClients bool            // there are registered clients
	client     registry.Client // the client that the attribute clientAttr identifies
	clientAttr int             // number of an attribute, or noNode before the first lookup
	epoch      *registry.Epoch // the epoch at the beginning of the match
	lowerCaser *lowerCaser     // nil if no value has been converted to lower case
	values     [cachedAttrs]string
}

// start initializes a zero probe in place, because copying it would take longer than a match of few rules.
func (p *probe) start(s *Set, subject rules.Subject) {
	p.epoch = s.epoch.Load() // before clientCount, which may already be 0 while the epoch hides changes
	p.subject, p.set, p.hasClients, p.clientAttr = subject, s, p.epoch != nil || s.clientCount() > 0, noNode
}

// get returns the value of an attribute, given its number. The value is valid until release.
func (p *probe) get(attr int) (string, bool) {
	if p.cached>>attr&1 != 0 {
		return p.values[attr%cachedAttrs], p.present>>attr&1 != 0
	}
	src := &p.set.attrs[attr]
	if src.attribute.Kind == headgate.AttrClient {
		return p.property(attr, src.attribute.Name)
	}
	value, ok := p.subject.Get(src.attribute)
	if src.norm != 0 {
		value = p.normalized(value, src.norm)
	}
	p.cache(attr, value, ok)
	return value, ok
}

// cache stores the value of an attribute, or that it has none, unless its number is too high for the cache.
func (p *probe) cache(attr int, value string, ok bool) {
	if attr >= cachedAttrs {
		return
	}
	p.cached |= 1 << attr
	if ok {
		p.present |= 1 << attr
		p.values[attr] = value
	}
}

// normalized is like norm.apply, but allocates nothing for a path.
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

// release makes the memory of values that get has returned available for other requests. Before this, it removes such
// values from the results.
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

// repeats reports whether an attribute was sent several times with different values.
func (p *probe) repeats(attr int) bool {
	s, ok := p.subject.(rules.Repeater)
	return ok && s.Repeats(p.set.attrs[attr].attribute)
}

// address returns the client's address or network, or an invalid prefix if it is unknown.
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
	if text, ok := p.get(attrIP); ok {
		p.net = pattern.ParseNetwork(text)
	}
	return p.net
}
