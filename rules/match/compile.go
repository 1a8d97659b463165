package match

import (
	"cmp"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/internal/yield"
	"github.com/headgate/headgate/rules/registry"
)

// Compile compiles rules, and registers clients with limits of their own. It copies its arguments. It takes about ten
// microseconds per rule, and pauses regularly so that it does not delay requests.
//
// If a rule or a client is invalid, Compile returns a *rules.Error with all problems.
func Compile(list []rules.Rule, clients ...rules.Client) (*Set, error) {
	if err := rules.Validate(list, clients...); err != nil {
		return nil, err
	}
	registered, err := registry.New(clients...)
	if err != nil {
		return nil, err
	}
	s := &Set{clients: registered, epoch: new(registry.CurrentEpoch), required: rules.NewRequirements(list)}
	s.compile(list)
	return s, nil
}

// WithRegistry returns a set with the same rules and an additional registry, whose clients may change. They take
// precedence over the clients that were passed to Compile. Several sets can share a registry, so that the clients stay
// when the rules change.
func (s *Set) WithRegistry(extra *registry.Registry) *Set {
	changed := *s
	changed.extraClients = extra
	return &changed
}

// WithClients returns a set with the same rules, and with a registry in place of the clients that were passed to
// Compile. Changes of the registry take effect immediately, or together with HideChanges. The clients are not checked
// against the rules; Check does this.
func (s *Set) WithClients(r *registry.Registry) *Set {
	changed := *s
	changed.clients, changed.epoch = r, new(registry.CurrentEpoch)
	return &changed
}

// HideChanges hides later changes of the registry that was passed to WithClients. Until end is called, matches find the
// clients as they are now. After end(true) they find all changes, and no match finds only some of them. After
// end(false) they keep finding the clients as they were.
//
// end(false) is for a set that is replaced by another set with the same registry, which was created after HideChanges.
// The previous state of the clients takes memory as long as the old set is in use. Only one goroutine may hide changes
// of a registry at a time, from one set.
func (s *Set) HideChanges() (end func(show bool)) { return s.clients.Hide(s.epoch) }

// Check reports all problems of a client, including limits that cannot be used under the rules of the set. The error is
// a *rules.Error. Compile has already checked the clients that it was given.
func (s *Set) Check(c rules.Client) error { return s.required.Check(c) }

// Conflicts returns the clients of a registry that Check would refuse, grouped by their limits. more is the number of
// clients in groups that are not in the list. If all clients are valid under the set before, Conflicts is faster: it
// checks only requirements that before does not have. before may be nil.
func (s *Set) Conflicts(in *registry.Registry, before *Set) (list []registry.ConflictGroup, more int) {
	required := s.required
	if before != nil {
		required = required.Since(before.required)
	}
	return in.Conflicts(required)
}

// compile compiles validated rules.
func (s *Set) compile(list []rules.Rule) {
	enabled := make([]*rules.Rule, 0, len(list))
	for i := range list {
		if !list[i].Disabled {
			enabled = append(enabled, &list[i])
		}
	}
	slices.SortStableFunc(enabled, func(a, b *rules.Rule) int { return cmp.Compare(b.Priority, a.Priority) })

	conditions := make([]*rules.Condition, len(enabled))
	for rank, rule := range enabled {
		conditions[rank] = normalizedCondition(&rule.When, normalizationOf(rule))
	}
	comp := newCompiler(enabled, conditions)
	s.rules = make([]compiledRule, len(enabled))
	s.byID = make(map[string]int32, len(enabled))
	namespaces := make([][]compiledTest, len(enabled))
	var work yield.Yielder
	for rank, rule := range enabled {
		work.Step()
		s.rules[rank] = comp.compileRule(rule)
		s.rules[rank].rank = int32(rank)
		s.byID[rule.ID] = int32(rank)
		if rule.Namespace != "" {
			attr := comp.number(headgate.Attribute{Kind: headgate.AttrNamespace})
			namespaces[rank] = []compiledTest{{attr: attr, kind: testEqualsOrMissing, value: rule.Namespace}}
		}
	}
	s.index, s.conds = newIndex(conditions, namespaces, comp)
	s.setClientAttrs(enabled, comp)
	s.attrs = sourcesOf(comp.attributes)
	if s.index.matchesAll(len(s.rules)) {
		for rank := range s.rules {
			s.all = append(s.all, int32(rank))
		}
	}
}

// setClientAttrs sets clientAttrs and propertyAttrs. The attributes that identify a client are read in this order:
// api_key, user, the other attributes of keys by name, and ip.
func (s *Set) setClientAttrs(list []*rules.Rule, comp *compiler) {
	for attr, a := range comp.attributes {
		if a.Kind == headgate.AttrClient && attr < cachedAttrs {
			s.propertyAttrs |= 1 << attr
		}
	}
	if !slices.ContainsFunc(comp.attributes, func(a headgate.Attribute) bool { return a.Kind == headgate.AttrClient }) {
		return
	}
	first := []headgate.Attribute{{Kind: headgate.AttrAPIKey}, {Kind: headgate.AttrUser}}
	last := headgate.Attribute{Kind: headgate.AttrIP}
	var others []headgate.Attribute
	added := map[headgate.Attribute]bool{first[0]: true, first[1]: true, last: true}
	for _, rule := range list {
		for _, a := range rule.Key {
			if !added[a] {
				added[a] = true
				others = append(others, a)
			}
		}
	}
	slices.SortFunc(others, func(a, b headgate.Attribute) int { return cmp.Compare(a.String(), b.String()) })
	for _, a := range append(append(first, others...), last) {
		s.clientAttrs = append(s.clientAttrs, int32(comp.number(a)))
	}
}

// newCompiler returns a compiler. It gives the lowest numbers to the attributes that most rules use, because a probe
// caches only attributes with low numbers.
func newCompiler(list []*rules.Rule, conditions []*rules.Condition) *compiler {
	counts := map[headgate.Attribute]int{}
	var order []headgate.Attribute
	count := func(a headgate.Attribute) {
		if counts[a]++; counts[a] == 1 {
			order = append(order, a)
		}
	}
	var work yield.Yielder
	for i, r := range list {
		work.Step()
		tests, _ := flatten(conditions[i])
		for _, t := range tests {
			count(t.Attribute)
		}
		for _, a := range normalizedKey(r.Key, normalizationOf(r)) {
			count(a)
		}
	}
	slices.SortStableFunc(order, func(a, b headgate.Attribute) int { return cmp.Compare(counts[b], counts[a]) })
	c := &compiler{numbers: map[headgate.Attribute]int{}}
	path := headgate.Attribute{Kind: headgate.AttrPath}
	if i := slices.IndexFunc(order, func(a headgate.Attribute) bool { return a.Kind == headgate.AttrPath }); i >= 0 {
		path = order[i] // the index finds paths in the normalization that most rules use
	}
	for _, a := range []headgate.Attribute{
		attrHost: {Kind: headgate.AttrHost}, attrPath: path, attrIP: {Kind: headgate.AttrIP},
	} {
		c.number(a)
	}
	for _, a := range order {
		c.number(a)
	}
	return c
}

// compileRule compiles a rule without its condition.
func (comp *compiler) compileRule(rule *rules.Rule) compiledRule {
	normal, norm := rule.WithDefaults(), normalizationOf(rule)
	c := compiledRule{
		rule:           &normal,
		limits:         normal.Limits,
		fallback:       normal.Fallback,
		block:          normal.Block,
		unlimited:      normal.Unlimited,
		shared:         isShared(rule),
		registeredOnly: normal.Unregistered == rules.UnregisteredDeny,
		keyByAttrs:     newKeyFormat(rule, normal.Key),
		keyByIP:        newKeyFormat(rule, []headgate.Attribute{{Kind: headgate.AttrIP}}),
	}
	key := normalizedKey(normal.Key, norm)
	c.keyByAttrs.sources = sourcesOf(key)
	for i, a := range key {
		c.attrs[i] = int32(comp.number(a))
		c.keyCount++
		c.mayRepeat = c.mayRepeat || repeatable(a.Kind)
	}
	c.usesProperties = slices.ContainsFunc(normal.Overrides,
		func(o rules.Override) bool { return o.When.UsesProperties() })
	c.blockOverrides = comp.compileOverrides(normal.Overrides, true, norm)
	c.otherOverrides = comp.compileOverrides(normal.Overrides, false, norm)
	c.simple = isSimple(&normal)
	c.units = max(normal.Cost.Units, 1)
	c.plainLimits = !c.block && !c.unlimited && !c.registeredOnly && c.blockOverrides == nil && c.otherOverrides == nil
	return c
}

// isSimple reports whether the rule has no settings for counting other than its limits, its key and a fixed cost.
func isSimple(r *rules.Rule) bool {
	return r.Cost.Header == "" && r.Cost.ResponseHeader == "" &&
		r.Consistency == rules.ByStore && r.Scope == rules.ScopeRegion && r.Split == 0 &&
		r.OnLimit.Action == rules.Reject && r.OnFailure == headgate.Open && r.Safe == nil && r.Penalty == nil
}

// compileOverrides compiles the overrides that block, or the others. It returns nil if there are none.
func (comp *compiler) compileOverrides(overrides []rules.Override, block bool, norm normalization) *overrideIndex {
	o := &overrideIndex{}
	var conditions []*rules.Condition
	for i := range overrides {
		if overrides[i].Block == block {
			conditions = append(conditions, normalizedCondition(&overrides[i].When, norm))
			o.positions = append(o.positions, i)
		}
	}
	if conditions == nil {
		return nil
	}
	o.index, o.conds = newIndex(conditions, nil, comp)
	return o
}
