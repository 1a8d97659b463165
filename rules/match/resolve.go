package match

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/registry"
)

// A compiledRule is a rule in a form that is fast to match. The fields that every match reads come first.
type compiledRule struct {
	rule           *rules.Rule
	limits         []rules.Limit
	blockOverrides *overrideIndex // the overrides that block
	otherOverrides *overrideIndex // the other overrides
	rank           int32          // index in Set.rules, which is sorted by priority
	keyCount       uint8          // number of attributes of the key
	fallback       rules.Fallback
	block          bool
	unlimited      bool
	shared         bool // see Result.Shared
	mayRepeat      bool // an attribute of the key can be sent several times
	// plainLimits means that only the limits of the rule or of a registered client apply: the rule has no block, no
	// exemption and no overrides, and registeredOnly is false.
	plainLimits    bool
	registeredOnly bool // clients must be registered
	usesProperties bool // an override uses properties of the client
	// simple means that counting needs only the limits, the key and a fixed cost: see Result.Simple. A simple rule need
	// not have plainLimits.
	simple     bool
	attrs      [rules.MaxKey]int32 // the attributes of the key, as indexes in Set.attrs
	units      int64               // the cost of a request, if simple
	keyByAttrs keyFormat           // the format of keys that contain the attributes of the key
	keyByIP    keyFormat           // the format of keys that contain the address, because an attribute is missing
}

// An overrideIndex finds the first override that matches.
type overrideIndex struct {
	index     *index
	conds     []compiledCondition
	positions []int // in Rule.Overrides
}

// first returns the position of the first override that matches, or -1 if none does.
func (o *overrideIndex) first(p *probe) int {
	var c collector
	c.conds, c.firstOnly = o.conds, true
	o.index.find(&c, p)
	if c.count == 0 {
		return -1
	}
	return o.positions[c.buf[0]]
}

// reset sets m to the result of a rule that counts the request by the attributes of its key under the given limits. It
// does not reset inlineLimit, which is read only if hasInlineLimit is set.
func (m *Result) reset(r *compiledRule, limits []rules.Limit) {
	m.Rule, m.compiled = r.rule, r
	m.Index = int(r.rank)
	m.Effect = Limited
	m.Shared = r.shared
	m.Override = -1
	m.Client, m.value = "", ""
	m.Limits = limits
	m.byIP, m.hasClientLimits, m.hasInlineLimit = false, false, false
}

// resolve sets m to the result of a rule for a request. The first of these steps that applies decides:
//
//  1. The rule blocks.
//  2. An override that blocks matches.
//  3. The rule is an exemption.
//  4. The request cannot be counted, because an attribute of the key is missing or ambiguous.
//  5. The registered client has limits, an exemption or a block under this rule.
//  6. The client is not registered, and the rule is registeredOnly.
//  7. Another override matches; the first one counts.
//  8. The limits of the rule apply.
func (s *Set) resolve(r *compiledRule, m *Result, p *probe) {
	m.reset(r, nil)
	if r.block {
		m.Effect = Blocked
		return
	}
	if r.usesProperties && p.hasClients { // overrides use the properties of the client that this rule counts
		p.setPropertyRule(r)
	}
	if r.blockOverrides != nil {
		if at := r.blockOverrides.first(p); at >= 0 {
			m.Effect, m.Override = Blocked, at
			return
		}
	}
	if r.unlimited {
		m.Effect = Unlimited
		return
	}
	if !r.identify(m, p) {
		return
	}
	if p.hasClients && s.applyClient(m, p) {
		return
	}
	if r.registeredOnly && m.Client == "" {
		m.Effect = UnknownClient
		return
	}
	if r.otherOverrides != nil {
		if at := r.otherOverrides.first(p); at >= 0 {
			o := &r.rule.Overrides[at]
			m.Override = at
			m.grant(o.Limits, o.Unlimited)
			return
		}
	}
	m.Limits = r.limits
}

// applyClient looks up the registered client, and sets m to its limits, exemption or block. It returns false if the
// client is not registered, or has none of these under the rule.
func (s *Set) applyClient(m *Result, p *probe) bool {
	c, id := s.lookUp(m, p)
	if c.Absent() {
		return false
	}
	m.Client = id
	if c.OneLimit(&m.inlineLimit[0]) { // most clients have one limit; it is copied, so nothing is allocated
		m.hasClientLimits, m.hasInlineLimit = true, true
		return true
	}
	limits, unlimited, block := c.Grants(m.Rule.ID)
	if block {
		m.Effect, m.Limits = Blocked, nil
		return true
	}
	m.hasClientLimits = len(limits) > 0
	return m.grant(limits, unlimited)
}

// resolvePlainLimits is a faster resolve for a rule with plainLimits. It does not look up registered clients.
func (m *Result) resolvePlainLimits(r *compiledRule, p *probe) {
	m.reset(r, r.limits)
	if r.keyCount == 1 && !r.mayRepeat { // the common case, in which identify need not be called
		if m.value, _ = p.get(int(r.attrs[0])); m.value != "" {
			return
		}
	}
	if !r.identify(m, p) {
		m.Limits = nil
	}
}

// grant sets m to the limits or the exemption of an override or a client. It returns false if there are none.
func (m *Result) grant(limits []rules.Limit, unlimited bool) bool {
	switch {
	case unlimited:
		m.Effect, m.Limits = Unlimited, nil
	case len(limits) > 0:
		m.Limits = limits
	default:
		return false
	}
	return true
}

// identify determines the key under which the request is counted. If the request is not counted, it sets m.Effect and
// returns false.
func (r *compiledRule) identify(m *Result, p *probe) bool {
	for _, attr := range r.attrs[:r.keyCount] {
		if r.mayRepeat && p.repeats(int(attr)) {
			m.Effect = Ambiguous
			return false
		}
		if value, _ := p.get(int(attr)); value != "" {
			if r.keyCount == 1 {
				m.value = value
			}
			continue
		}
		if r.fallback == rules.FallbackIP {
			if ip, _ := p.get(attrIP); ip != "" {
				m.byIP, m.Shared = true, false // an address counts as one client
				return true
			}
		}
		m.Effect = Skipped
		if r.fallback == rules.FallbackDeny {
			m.Effect = Unidentified
		}
		return false
	}
	return true
}

// clientCount returns the number of registered clients in both registries: see Set.clients and Set.extraClients.
func (s *Set) clientCount() int {
	n := s.clients.Len()
	if s.extraClients != nil {
		n += s.extraClients.Len()
	}
	return n
}

// lookUp returns the registered client that the key identifies, and its id. The client is Absent if there is none.
func (s *Set) lookUp(m *Result, p *probe) (registry.Client, string) {
	if m.byIP {
		return s.lookUpAttr(attrIP, p)
	}
	for _, attr := range m.compiled.attrs[:m.compiled.keyCount] {
		if c, id := s.lookUpAttr(int(attr), p); !c.Absent() {
			return c, id
		}
	}
	return registry.Client{}, ""
}

// lookUpAttr returns the registered client that an attribute identifies, and its id. The client is Absent if there is
// none.
func (s *Set) lookUpAttr(attr int, p *probe) (registry.Client, string) {
	value, _ := p.get(attr)
	if p.clientAttr != attr { // consecutive rules often count by the same attribute
		p.clientAttr, p.client = attr, s.findClient(s.attrs[attr].attribute, value, p.epoch)
	}
	if p.client.Absent() {
		return registry.Client{}, ""
	}
	return p.client, p.client.ClientID(value)
}

// findClient returns the client that the value of an attribute identifies. Clients of extraClients take precedence.
// Among those of clients, an epoch that hides changes returns the client before these changes, because changes of a
// revision become visible together. The client is Absent if there is none.
func (s *Set) findClient(a headgate.Attribute, value string, epoch *registry.Epoch) registry.Client {
	if s.extraClients != nil && s.extraClients.Len() > 0 {
		if c := s.extraClients.Find(a, value); !c.Absent() {
			return c
		}
	}
	if epoch.HidesChanges() {
		return epoch.Find(s.clients, a, value)
	}
	if s.clients.Len() == 0 {
		return registry.Client{}
	}
	return s.clients.Find(a, value)
}
