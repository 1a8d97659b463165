package rules

import "github.com/headgate/headgate"

// compiled is a rule made ready. What every match reads comes first.
type compiled struct {
	rule      *Rule
	limits    []Limit
	blocks    *choices // the overrides that block
	others    *choices // those that do not
	place     int32    // in the Set
	count     uint8    // of the attributes of the key
	fallback  Fallback
	block     bool
	unlimited bool
	shared    bool
	repeats   bool          // some attribute of the key can be sent several times
	plain     bool          // nothing but its limits and its key is to be looked at
	known     bool          // clients must be registered
	asks      bool          // some override looks at properties of the client
	simple    bool          // see Matched.Simple
	slots     [MaxKey]int32 // of the attributes of the key
	units     int64         // what a request takes, if simple
	keyBit    uint64        // of those with the same attributes, 0 if there are too many others
	keyed     naming        // by its key
	byIP      naming        // by the address instead
}

// choices are overrides of which the first that matches counts.
type choices struct {
	index  *index
	conds  []cond
	places []int // in Rule.Overrides
}

// first returns the place of the first that matches, -1 if none does.
func (o *choices) first(p *probe) int {
	var c collector
	c.conds, c.first = o.conds, true
	o.index.find(&c, p)
	if c.count == 0 {
		return -1
	}
	return o.places[c.room[0]]
}

// resolve says what a rule does: a block comes first, then what the registered client has of its own, then the first
// override that matches, then the rule itself.
func (s *Set) resolve(r *compiled, m *Matched, p *probe) {
	m.Rule, m.Place, m.Effect, m.Shared, m.Override, m.Client, m.Limits = r.rule, int(r.place), Limited, r.shared, -1, "", nil
	m.rule, m.value, m.byIP, m.client, m.short = r, "", false, false, false
	if r.block {
		m.Effect = Blocked
		return
	}
	if r.asks && p.clients {
		p.turn(r)
	}
	if r.blocks != nil {
		if at := r.blocks.first(p); at >= 0 {
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
	if p.clients || r.known {
		if c, id := s.lookUp(m, p); !c.nobody() {
			m.Client = id
			if c.one() {
				c.short.to(&m.own[0])
				m.client, m.short = true, true // as Limits, where it is known that m stays where it is
				return
			}
			limits, unlimited, block := c.has.under(r.rule.ID)
			m.client = len(limits) > 0
			if block {
				m.Effect = Blocked
				return
			}
			if m.grant(limits, unlimited) {
				return
			}
		} else if r.known {
			m.Effect = UnknownClient
			return
		}
	}
	if r.others != nil {
		if at := r.others.first(p); at >= 0 {
			o := &r.rule.Overrides[at]
			m.Override = at
			m.grant(o.Limits, o.Unlimited)
			return
		}
	}
	m.Limits = r.limits
}

// own gives what the registered client has of its own in place of a plain rule's limits, if it is registered and has something.
func (s *Set) own(m *Matched, p *probe) {
	c, id := s.lookUp(m, p)
	if c.nobody() {
		return
	}
	m.Client = id
	if c.one() {
		c.short.to(&m.own[0])
		m.client, m.Limits = true, m.own[:]
		return
	}
	limits, unlimited, block := c.has.under(m.Rule.ID)
	switch {
	case block:
		m.Effect, m.Limits = Blocked, nil
	case unlimited:
		m.Effect, m.Limits = Unlimited, nil
	case len(limits) > 0:
		m.client, m.Limits = true, limits
	}
}

// plain is resolve for a rule that has nothing but limits and a key, but for what registered clients have.
func (m *Matched) plain(r *compiled, p *probe) {
	m.Rule, m.Place, m.Effect, m.Shared, m.Override, m.Client, m.Limits = r.rule, int(r.place), Limited, r.shared, -1, "", r.limits
	m.rule, m.value, m.byIP, m.client, m.short = r, "", false, false, false
	switch {
	case p.complete&r.keyBit == 0:
		if !r.identify(m, p) {
			m.Limits = nil
		}
	case r.count == 1 && r.slots[0] < cachedSlots:
		m.value = p.values[r.slots[0]] // which is there, or the key were not complete
	case r.count == 1:
		m.value, _ = p.get(int(r.slots[0]))
	}
}

// grant gives what an override or a client has. It is false if that is nothing.
func (m *Matched) grant(limits []Limit, unlimited bool) bool {
	if unlimited {
		m.Effect = Unlimited
	}
	m.Limits = limits
	return unlimited || len(limits) > 0
}

// identify finds out by what to count. It is false if that is decided to be nothing.
func (r *compiled) identify(m *Matched, p *probe) bool {
	for _, slot := range r.slots[:r.count] {
		if r.repeats && p.repeats(int(slot)) {
			m.Effect = Ambiguous
			return false
		}
		if value, _ := p.get(int(slot)); value != "" {
			if r.count == 1 {
				m.value = value
			}
			continue
		}
		if r.fallback == FallbackIP {
			if ip, _ := p.get(slotIP); ip != "" {
				m.byIP, m.Shared = true, false
				return true
			}
		}
		m.Effect = Skipped
		if r.fallback == FallbackDeny {
			m.Effect = Unidentified
		}
		return false
	}
	p.complete |= r.keyBit
	return true
}

// clients returns how many clients are registered.
func (s *Set) clients() int {
	n := s.fixed.Len()
	if s.live != nil {
		n += s.live.Len()
	}
	return n
}

// Lasting tells that a request that was matched will be matched in the same way again: nobody is registered, so that there is
// nothing but rules to go by, and they never change.
func (s *Set) Lasting() bool { return s.shown.Load() == nil && s.clients() == 0 }

// lookUp returns the registered client that the key names, nobody if there is none, and its id.
func (s *Set) lookUp(m *Matched, p *probe) (found, string) {
	if m.byIP {
		return s.lookUpSlot(slotIP, m.rule.known, p)
	}
	for _, slot := range m.rule.slots[:m.rule.count] {
		if c, id := s.lookUpSlot(int(slot), m.rule.known, p); !c.nobody() {
			return c, id
		}
	}
	return found{}, ""
}

// lookUpSlot returns the client that an attribute names, for sure if that matters.
func (s *Set) lookUpSlot(slot int, sure bool, p *probe) (found, string) {
	value, _ := p.get(slot)
	if p.clientOf != slot || sure && !p.clientSure { // several rules in a row count by the same
		by, _ := unformed(s.slots[slot])
		p.clientOf, p.clientSure, p.client = slot, sure, s.find(by, value, sure, p.era)
	}
	if p.client.nobody() {
		return found{}, ""
	}
	return p.client, p.client.idOf(value)
}

func (s *Set) find(a headgate.Attribute, value string, sure bool, in *era) found {
	if in.hides() {
		return s.findBefore(a, value, sure, in)
	}
	return findIn(a, value, sure, s.live, s.fixed)
}

// findBefore is find while a change is hidden.
func (s *Set) findBefore(a headgate.Attribute, value string, sure bool, in *era) found {
	if c := findIn(a, value, sure, s.live, nil); !c.nobody() {
		return c
	}
	return in.find(s.fixed, a, value)
}

func findIn(a headgate.Attribute, value string, sure bool, first, second *Registry) found {
	for _, in := range [...]*Registry{first, second} {
		if in == nil || in.Len() == 0 {
			continue
		}
		c := in.guess(a, value)
		if !c.nobody() && (sure || in.values.doubtful()) {
			c = in.find(a, value)
		}
		if !c.nobody() {
			return c
		}
	}
	return found{}
}
