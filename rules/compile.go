package rules

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/headgate/headgate"
)

// Compile prepares rules for matching, with clients that have limits of their own. It copies its arguments. It takes
// about ten microseconds per rule, and yields the processor regularly.
//
// If anything is invalid, Compile returns no Set and an *Error with all problems.
func Compile(rules []Rule, clients ...Client) (*Set, error) {
	s, err := validated(rules, clients)
	if err != nil {
		return nil, err
	}
	s.compile(rules)
	return s, nil
}

// Validate reports the same problems as Compile. The error is an *Error.
func Validate(rules []Rule, clients ...Client) error {
	if len(clients) == 0 { // without clients, their requirements are not needed
		var p problems
		validateRules(rules, &p)
		return p.err()
	}
	_, err := validated(rules, clients)
	return err
}

// validated returns a set with its clients and without its rules.
func validated(rules []Rule, clients []Client) (*Set, error) {
	var p problems
	at := &location{name: "clients"}
	validateRules(rules, &p)
	if len(clients) > MaxClients {
		p.add(at, strconv.Itoa(len(clients)), "at most "+strconv.Itoa(MaxClients)+"; a Registry takes more")
	}
	if len(rules) > MaxRules || len(clients) > MaxClients {
		return nil, p.err()
	}
	s := &Set{
		fixed:        newRegistry(clients, at, &p),
		epoch:        new(currentEpoch),
		requirements: newRequirements(len(rules)),
	}
	var work yielder
	for i := range rules {
		work.step()
		s.requirements.add(&rules[i])
	}
	for i := range clients {
		if !s.fixed.byID(clients[i].ID).absent() {
			s.requirements.check(clients[i].withDefaults(), at.element(i), &p)
		}
	}
	return s, p.err()
}

// WithRegistry returns the same rules with a registry of clients that may change. They are looked up before those given
// to Compile. Several sets can share a registry, so that clients persist when rules change.
func (s *Set) WithRegistry(live *Registry) *Set {
	changed := *s
	changed.live = live
	return &changed
}

// WithClients returns the same rules with a registry in place of the clients given to Compile. Changes of the registry
// take effect at once; its clients are not checked against the rules (see Check). Registry.Hide turns several changes
// into one.
func (s *Set) WithClients(r *Registry) *Set {
	changed := *s
	changed.fixed, changed.epoch = r, new(currentEpoch)
	return &changed
}

func validateRules(rules []Rule, p *problems) {
	at := &location{name: "rules"}
	if len(rules) > MaxRules {
		p.add(at, strconv.Itoa(len(rules)), "at most "+strconv.Itoa(MaxRules))
		return
	}
	seen := make(map[string]int, len(rules))
	var work yielder
	for i := range rules {
		work.step()
		here := at.element(i)
		rules[i].validate(here, p)
		if first, twice := seen[rules[i].ID]; twice && rules[i].ID != "" {
			p.addDuplicate(here.field("id"), at.element(first), Quote(rules[i].ID), "an id that no other rule has")
		} else {
			seen[rules[i].ID] = i
		}
	}
}

// compile compiles validated rules.
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
		conditions[rank] = normalizedCondition(&rule.When, rule.normalization())
	}
	r := newCompiler(enabled, conditions)
	s.rules = make([]compiledRule, len(enabled))
	s.byID = make(map[string]int32, len(enabled))
	namespaces := make([][]compiledTest, len(enabled))
	var work yielder
	for rank, rule := range enabled {
		work.step()
		s.rules[rank] = r.compileRule(rule)
		s.rules[rank].rank = int32(rank)
		s.byID[rule.ID] = int32(rank)
		if rule.Namespace != "" {
			slot := r.slot(headgate.Attribute{Kind: headgate.AttrNamespace})
			namespaces[rank] = []compiledTest{{slot: slot, kind: testEqualsOrMissing, value: rule.Namespace}}
		}
	}
	s.index, s.conds = newIndex(conditions, namespaces, r)
	s.setClientSlots(enabled, r)
	s.slots = sourcesOf(r.attributes)
	s.numberKeys()
	if s.index.matchesAll(len(s.rules)) {
		for rank := range s.rules {
			s.all = append(s.all, int32(rank))
		}
	}
}

// setClientSlots sets the attributes that identify a client when a condition uses client properties, in order: api_key,
// user, the other attributes of keys by name, and ip.
func (s *Set) setClientSlots(rules []*Rule, r *compiler) {
	for slot, a := range r.attributes {
		if a.Kind == headgate.AttrClient && slot < cachedSlots {
			s.propertySlots |= 1 << slot
		}
	}
	if !slices.ContainsFunc(r.attributes, func(a headgate.Attribute) bool { return a.Kind == headgate.AttrClient }) {
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
		s.clientSlots = append(s.clientSlots, int32(r.slot(a)))
	}
}

// numberKeys gives rules with the same key attributes the same bit, so that a match checks those attributes once.
func (s *Set) numberKeys() {
	type attributeSet struct {
		count uint8
		slots [MaxKey]int32
	}
	bits := map[attributeSet]uint64{}
	for i := range s.rules {
		r := &s.rules[i]
		k := attributeSet{r.keyCount, r.slots}
		if _, ok := bits[k]; !ok {
			bits[k] = 1 << len(bits) // 0 from the 65th key on
		}
		r.keyBit = bits[k]
	}
}

// newCompiler returns a compiler that numbers the attributes used by most rules first.
func newCompiler(rules []*Rule, conditions []*Condition) *compiler {
	counts := map[headgate.Attribute]int{}
	var order []headgate.Attribute
	count := func(a headgate.Attribute) {
		if counts[a]++; counts[a] == 1 {
			order = append(order, a)
		}
	}
	var work yielder
	for i, r := range rules {
		work.step()
		tests, _ := flatten(conditions[i])
		for _, t := range tests {
			count(t.Attribute)
		}
		for _, a := range normalizedKey(r.Key, r.normalization()) {
			count(a)
		}
	}
	slices.SortStableFunc(order, func(a, b headgate.Attribute) int { return cmp.Compare(counts[b], counts[a]) })
	c := &compiler{slots: map[headgate.Attribute]int{}}
	path := headgate.Attribute{Kind: headgate.AttrPath}
	if i := slices.IndexFunc(order, func(a headgate.Attribute) bool { return a.Kind == headgate.AttrPath }); i >= 0 {
		path = order[i] // the index has paths with the normalization that most rules use
	}
	for _, a := range []headgate.Attribute{
		slotHost: {Kind: headgate.AttrHost}, slotPath: path, slotIP: {Kind: headgate.AttrIP},
	} {
		c.slot(a)
	}
	for _, a := range order {
		c.slot(a)
	}
	return c
}

// compileRule compiles a rule without its condition.
func (r *compiler) compileRule(rule *Rule) compiledRule {
	normal, norm := rule.withDefaults(), rule.normalization()
	c := compiledRule{
		rule:           &normal,
		limits:         normal.Limits,
		fallback:       normal.Fallback,
		block:          normal.Block,
		unlimited:      normal.Unlimited,
		shared:         isShared(rule),
		registeredOnly: normal.Unregistered == UnregisteredDeny,
		byKey:          newKeyFormat(rule, normal.Key),
		byIP:           newKeyFormat(rule, []headgate.Attribute{{Kind: headgate.AttrIP}}),
	}
	key := normalizedKey(normal.Key, norm)
	c.byKey.sources = sourcesOf(key)
	for i, a := range key {
		c.slots[i] = int32(r.slot(a))
		c.keyCount++
		c.mayRepeat = c.mayRepeat || repeatable(a.Kind)
	}
	c.usesProperties = slices.ContainsFunc(normal.Overrides, func(o Override) bool { return o.When.usesProperties() })
	c.blockOverrides = r.compileOverrides(normal.Overrides, true, norm)
	c.otherOverrides = r.compileOverrides(normal.Overrides, false, norm)
	c.simple = normal.isSimple()
	c.units = max(normal.Cost.Units, 1)
	c.limitsOnly = !c.block && !c.unlimited && !c.registeredOnly && c.blockOverrides == nil && c.otherOverrides == nil
	return c
}

// isSimple reports whether the rule has no settings for counting other than its limits, its key and a fixed cost.
func (r *Rule) isSimple() bool {
	return r.Cost.Header == "" && r.Cost.ResponseHeader == "" &&
		r.Consistency == ByStore && r.Scope == ScopeRegion && r.Split == 0 &&
		r.OnLimit.Action == Reject && r.OnFailure == headgate.Open && r.Safe == nil && r.Penalty == nil
}

// compileOverrides compiles the overrides that block, or those that do not; it returns nil if there are none.
func (r *compiler) compileOverrides(overrides []Override, block bool, norm normalization) *overrideIndex {
	o := &overrideIndex{}
	var conditions []*Condition
	for i := range overrides {
		if overrides[i].Block == block {
			conditions = append(conditions, normalizedCondition(&overrides[i].When, norm))
			o.positions = append(o.positions, i)
		}
	}
	if conditions == nil {
		return nil
	}
	o.index, o.conds = newIndex(conditions, nil, r)
	return o
}

// withDefaults returns a deep copy of the rule with the defaults filled in.
func (r *Rule) withDefaults() Rule {
	normal := *r
	normal.When = r.When.clone()
	normal.Key = slices.Clone(r.Key)
	normal.Limits = numberLimits(r.Limits)
	normal.Cost = r.Cost.withDefaults()
	if normal.Status == 0 {
		normal.Status = 429
	}
	if r.Safe != nil {
		safe := *r.Safe
		normal.Safe = &safe
	}
	normal.Overrides = slices.Clone(r.Overrides)
	for i := range normal.Overrides {
		o := &normal.Overrides[i]
		o.When = o.When.clone()
		o.Limits = nameLimits(o.Limits)
		names := make([]string, len(o.Limits))
		for j := range o.Limits {
			names[j] = nameUnder(normal.Limits, o.Limits, j)
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
		normal.Penalty = &penalty
	}
	return normal
}

func (c *Condition) clone() Condition {
	cloned := Condition{Tests: slices.Clone(c.Tests)}
	for i := range cloned.Tests {
		cloned.Tests[i].Values = slices.Clone(cloned.Tests[i].Values)
	}
	for _, list := range []struct{ from, to *[]Condition }{
		{&c.Any, &cloned.Any}, {&c.All, &cloned.All}, {&c.Not, &cloned.Not},
	} {
		for i := range *list.from {
			*list.to = append(*list.to, (*list.from)[i].clone())
		}
	}
	return cloned
}
