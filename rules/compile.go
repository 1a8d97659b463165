package rules

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/headgate/headgate"
)

// Compile makes rules ready to be matched, with clients that have limits of their own. It copies what it is given. It takes some
// ten microseconds a rule, and lets others run in between.
//
// If anything is wrong there is no Set, and the error is an *Error that says everything.
func Compile(rules []Rule, clients ...Client) (*Set, error) {
	s, err := validated(rules, clients)
	if err != nil {
		return nil, err
	}
	s.compile(rules)
	return s, nil
}

// Validate says what is wrong with rules and clients, as Compile does. The error is an *Error.
func Validate(rules []Rule, clients ...Client) error {
	if len(clients) == 0 { // there is nobody whom the rules would have to be gathered for
		var p problems
		validateRules(rules, &p)
		return p.err()
	}
	_, err := validated(rules, clients)
	return err
}

// validated returns a set that has its clients, and is to get its rules.
func validated(rules []Rule, clients []Client) (*Set, error) {
	var p problems
	at := &place{name: "clients"}
	validateRules(rules, &p)
	if len(clients) > MaxClients {
		p.add(at, strconv.Itoa(len(clients)), "at most "+strconv.Itoa(MaxClients)+"; a Registry takes more")
	}
	if len(rules) > MaxRules || len(clients) > MaxClients {
		return nil, p.err()
	}
	s := &Set{
		fixed: newRegistry(clients, at, &p),
		shown: new(showing),
		needs: newNeeds(len(rules)),
	}
	var work turn
	for i := range rules {
		work.polite()
		s.needs.add(&rules[i])
	}
	for i := range clients {
		if !s.fixed.byID(clients[i].ID).nobody() {
			s.needs.check(clients[i].normal(), at.element(i), &p)
		}
	}
	return s, p.err()
}

// WithRegistry returns the same rules with clients that come and go. They are looked up before those given to Compile. Many
// sets can share a registry, so that clients stay when rules change.
func (s *Set) WithRegistry(live *Registry) *Set {
	made := *s
	made.live = live
	return &made
}

// WithClients returns the same rules with a registry in place of the clients that were given to Compile. Who changes it
// changes who is known to these rules; they are not held against the rules (see Check). Registry.Hide makes many changes one.
func (s *Set) WithClients(r *Registry) *Set {
	made := *s
	made.fixed, made.shown = r, new(showing)
	return &made
}

func validateRules(rules []Rule, p *problems) {
	at := &place{name: "rules"}
	if len(rules) > MaxRules {
		p.add(at, strconv.Itoa(len(rules)), "at most "+strconv.Itoa(MaxRules))
		return
	}
	seen := make(map[string]int, len(rules))
	var work turn
	for i := range rules {
		work.polite()
		here := at.element(i)
		rules[i].validate(here, p)
		if first, twice := seen[rules[i].ID]; twice && rules[i].ID != "" {
			p.addTwice(here.field("id"), at.element(first), Quote(rules[i].ID), "an id that no other rule has")
		} else {
			seen[rules[i].ID] = i
		}
	}
}

// compile makes rules ready that are known to be right.
func (s *Set) compile(rules []Rule) {
	enabled := make([]*Rule, 0, len(rules))
	for i := range rules {
		if !rules[i].Disabled {
			enabled = append(enabled, &rules[i])
		}
	}
	slices.SortStableFunc(enabled, func(a, b *Rule) int { return cmp.Compare(b.Priority, a.Priority) })

	conditions := make([]*Condition, len(enabled))
	for rank, rule := range enabled {
		conditions[rank] = formed(&rule.When, rule.form())
	}
	r := newReader(enabled, conditions)
	s.rules = make([]compiled, len(enabled))
	s.byID = make(map[string]int32, len(enabled))
	namespaces := make([][]test, len(enabled))
	var work turn
	for rank, rule := range enabled {
		work.polite()
		s.rules[rank] = r.compile(rule)
		s.rules[rank].place = int32(rank)
		s.byID[rule.ID] = int32(rank)
		if rule.Namespace != "" {
			slot := r.slot(headgate.Attribute{Kind: headgate.AttrNamespace})
			namespaces[rank] = []test{{slot: slot, kind: testOneOrNone, one: rule.Namespace}}
		}
	}
	s.index, s.conds = newIndex(conditions, namespaces, r)
	s.nameClients(enabled, r)
	s.slots = r.list
	s.numberKeys()
	if s.index.matchesAll(len(s.rules)) {
		for rank := range s.rules {
			s.all = append(s.all, int32(rank))
		}
	}
}

// nameClients says by which attributes a client is found whose properties conditions ask for: api_key, user, what else rules count by in
// the order of the names, and ip.
func (s *Set) nameClients(rules []*Rule, r *reader) {
	for slot, a := range r.list {
		if a.Kind == headgate.AttrClient && slot < cachedSlots {
			s.described |= 1 << slot
		}
	}
	if !slices.ContainsFunc(r.list, func(a headgate.Attribute) bool { return a.Kind == headgate.AttrClient }) {
		return
	}
	first := []headgate.Attribute{{Kind: headgate.AttrAPIKey}, {Kind: headgate.AttrUser}}
	last := headgate.Attribute{Kind: headgate.AttrIP}
	var others []headgate.Attribute
	seen := map[headgate.Attribute]bool{first[0]: true, first[1]: true, last: true}
	for _, rule := range rules {
		for _, a := range rule.Key {
			if !seen[a] {
				seen[a] = true
				others = append(others, a)
			}
		}
	}
	slices.SortFunc(others, func(a, b headgate.Attribute) int { return cmp.Compare(a.String(), b.String()) })
	for _, a := range append(append(first, others...), last) {
		s.namers = append(s.namers, int32(r.slot(a)))
	}
}

// numberKeys gives rules that count by the same attributes the same bit, so that one look at these will do.
func (s *Set) numberKeys() {
	type key struct {
		count uint8
		slots [MaxKey]int32
	}
	bits := map[key]uint64{}
	for i := range s.rules {
		r := &s.rules[i]
		k := key{r.count, r.slots}
		if _, ok := bits[k]; !ok {
			bits[k] = 1 << len(bits) // 0 from the 65th on
		}
		r.keyBit = bits[k]
	}
}

// newReader returns a reader that numbers the attributes that most rules look at first.
func newReader(rules []*Rule, conditions []*Condition) *reader {
	counts := map[headgate.Attribute]int{}
	var order []headgate.Attribute
	count := func(a headgate.Attribute) {
		if counts[a]++; counts[a] == 1 {
			order = append(order, a)
		}
	}
	var work turn
	for i, r := range rules {
		work.polite()
		tests, _ := partsOf(conditions[i])
		for _, t := range tests {
			count(t.Attribute)
		}
		for _, a := range formedKey(r.Key, r.form()) {
			count(a)
		}
	}
	slices.SortStableFunc(order, func(a, b headgate.Attribute) int { return cmp.Compare(counts[b], counts[a]) })
	made := &reader{slots: map[headgate.Attribute]int{}}
	for _, kind := range []headgate.AttributeKind{slotHost: headgate.AttrHost, slotPath: headgate.AttrPath, slotIP: headgate.AttrIP} {
		made.slot(headgate.Attribute{Kind: kind})
	}
	for _, a := range order {
		made.slot(a)
	}
	return made
}

// compile makes a rule ready, all but its condition.
func (r *reader) compile(rule *Rule) compiled {
	made, form := rule.normal(), rule.form()
	c := compiled{
		rule:      &made,
		limits:    made.Limits,
		fallback:  made.Fallback,
		block:     made.Block,
		unlimited: made.Unlimited,
		shared:    isShared(rule),
		known:     made.Unregistered == UnregisteredDeny,
		keyed:     newNaming(rule, made.Key),
		byIP:      newNaming(rule, []headgate.Attribute{{Kind: headgate.AttrIP}}),
	}
	c.keyed.attributes = formedKey(made.Key, form)
	for i, a := range c.keyed.attributes {
		c.slots[i] = int32(r.slot(a))
		c.count++
		c.repeats = c.repeats || repeatable(a.Kind)
	}
	c.asks = slices.ContainsFunc(made.Overrides, func(o Override) bool { return o.When.asks() })
	c.blocks = r.choices(made.Overrides, true, form)
	c.others = r.choices(made.Overrides, false, form)
	c.simple = made.isSimple()
	c.units = max(made.Cost.Units, 1)
	c.plain = !c.block && !c.unlimited && !c.known && c.blocks == nil && c.others == nil
	return c
}

// isSimple tells whether all that the rule says of how it counts is its limits, its key and a number of units.
func (r *Rule) isSimple() bool {
	return r.Cost.Header == "" && r.Cost.ResponseHeader == "" && r.Consistency == ByStore && r.Scope == ScopeRegion && r.Split == 0 &&
		r.OnLimit.Action == Reject && r.OnFailure == headgate.Open && r.Safe == nil && r.Penalty == nil
}

// choices makes those overrides ready that block, or those that do not; nil if there are none.
func (r *reader) choices(overrides []Override, block bool, form string) *choices {
	o := &choices{}
	var conditions []*Condition
	for i := range overrides {
		if overrides[i].Block == block {
			conditions = append(conditions, formed(&overrides[i].When, form))
			o.places = append(o.places, i)
		}
	}
	if conditions == nil {
		return nil
	}
	o.index, o.conds = newIndex(conditions, nil, r)
	return o
}

// normal returns a copy of the rule with its defaults filled in, which shares nothing that changes with the original.
func (r *Rule) normal() Rule {
	made := *r
	made.When = r.When.clone()
	made.Key = slices.Clone(r.Key)
	made.Limits = numberLimits(r.Limits)
	made.Cost = r.Cost.normal()
	if made.Status == 0 {
		made.Status = 429
	}
	if r.Safe != nil {
		safe := *r.Safe
		made.Safe = &safe
	}
	made.Overrides = slices.Clone(r.Overrides)
	for i := range made.Overrides {
		o := &made.Overrides[i]
		o.When = o.When.clone()
		o.Limits = nameLimits(o.Limits)
		names := make([]string, len(o.Limits))
		for j := range o.Limits {
			names[j] = nameUnder(made.Limits, o.Limits, j)
		}
		for j := range o.Limits {
			o.Limits[j].Name = names[j]
		}
	}
	if r.Penalty != nil {
		penalty := *r.Penalty
		penalty.Limits = numberLimits(penalty.Limits)
		for i := range penalty.Limits {
			penalty.Limits[i].Name = penaltyMark + penalty.Limits[i].Name
		}
		made.Penalty = &penalty
	}
	return made
}

func (c *Condition) clone() Condition {
	made := Condition{Tests: slices.Clone(c.Tests)}
	for i := range made.Tests {
		made.Tests[i].Values = slices.Clone(made.Tests[i].Values)
	}
	for _, list := range []struct{ from, to *[]Condition }{{&c.Any, &made.Any}, {&c.All, &made.All}, {&c.Not, &made.Not}} {
		for i := range *list.from {
			*list.to = append(*list.to, (*list.from)[i].clone())
		}
	}
	return made
}
