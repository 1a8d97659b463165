package match

import (
	"slices"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/registry"
)

// A Set is a compiled set of rules. It never changes, and is safe for concurrent use.
type Set struct {
	rules        []compiledRule // by priority, then in the given order
	conds        []compiledCondition
	index        *index
	all          []int32                // the ranks of all rules if all conditions are always true, otherwise nil
	attrs        []source               // by the number of the attribute
	byID         map[string]int32       // ranks by id
	clients      *registry.Registry     // the clients of Compile, or the registry of WithClients
	extraClients *registry.Registry     // the registry of WithRegistry, or nil
	required     *rules.Requirements    // for limits of clients
	epoch        *registry.CurrentEpoch // says which changes of clients are hidden from matches

	// clientAttrs are the numbers of the attributes that identify the client whose properties the conditions of rules use.
	// It is empty if no rule uses properties.
	clientAttrs []int32
	// propertyAttrs is a bit set: the numbers of the properties that a probe caches.
	propertyAttrs uint32
}

// A Result is a rule that matches a request, and its effect on the request. Everything that it points to is read-only.
type Result struct {
	// Rule is the rule, with its defaults filled in.
	Rule *rules.Rule
	// Index is the rule's index in Set.Rules, for callers that keep data per rule. They must compare Rule before they
	// use it.
	Index int
	// Effect is what the rule does.
	Effect Effect
	// Shared reports whether several clients share the key. Shared keys are checked after the client's own keys.
	Shared bool
	// Override is the index in Rule.Overrides of the override that decided, or -1 if none did.
	Override int
	// Client is the id of the registered client. It is empty if the client is not registered, or if the rule counts by
	// attributes that do not identify it. It may share memory with a value of the subject.
	Client string
	// Limits are the limits to check, if Effect is Limited.
	Limits []rules.Limit

	compiled        *compiledRule
	value           string // the value in the key, if the key has one attribute
	byIP            bool   // the key is the address, because an attribute of the rule's key is missing
	hasClientLimits bool   // the limits are the client's
	hasInlineLimit  bool   // the only limit is in inlineLimit; Limits is set after the Result has its final address
	inlineLimit     [1]rules.Limit
}

// Simple reports whether the rule has only limits, a key and a fixed cost, and returns the cost. All other settings
// that affect counting have their defaults, so the caller need not read Rule.
func (m *Result) Simple() (units int64, ok bool) {
	if m.compiled == nil {
		return 0, false
	}
	return m.compiled.units, m.compiled.simple
}

// An Effect is what a rule does to a request.
type Effect uint8

// The effects.
const (
	Limited       Effect = iota // the limits of the rule decide
	Unlimited                   // allows the request: the rule, the override or the client is unlimited
	Exempted                    // allows the request: another rule exempts it from this one
	Skipped                     // allows the request: it lacks an attribute of the key, and there is no fallback
	Blocked                     // denies the request: the rule, the override or the client is blocked
	Unidentified                // denies the request: it lacks an attribute of the key
	UnknownClient               // denies the request: its client is not registered
	Ambiguous                   // denies the request: it has an attribute of the key several times with different values
)

var effectNames = []string{
	"limited", "unlimited", "exempted", "skipped", "blocked", "unidentified", "unregistered", "ambiguous",
}

func (e Effect) String() string {
	if int(e) < len(effectNames) {
		return effectNames[e]
	}
	return "unknown " + strconv.Itoa(int(e))
}

// Denies reports whether the rule denies the request regardless of its counters.
func (e Effect) Denies() bool { return e >= Blocked }

// Match appends the results of all rules that match to dst, in the order of the rules, and returns dst. It allocates
// nothing if dst has room, unless more than 32 rules match.
func (s *Set) Match(subject rules.Subject, dst []Result) []Result {
	var p probe
	p.start(s, subject)
	ranks := s.all
	if ranks == nil {
		var c collector
		c.conds = s.conds
		s.index.find(&c, &p)
		ranks = c.ranks()
	}
	before := len(dst)
	if cap(dst)-before < len(ranks) {
		dst = slices.Grow(dst, len(ranks))
	}
	dst = dst[:before+len(ranks)]
	exempts := false
	for i, rank := range ranks {
		r, m := &s.rules[rank], &dst[before+i]
		if r.plainLimits {
			m.resolvePlainLimits(r, &p)
			if p.hasClients && m.Effect == Limited {
				s.applyClient(m, &p)
			}
		} else {
			s.resolve(r, m, &p)
			exempts = exempts || r.unlimited
		}
		if m.hasInlineLimit {
			m.Limits = m.inlineLimit[:]
		}
	}
	if exempts {
		exempt(dst[before:])
	}
	if p.lowerCaser != nil {
		p.release(dst[before:])
	}
	if s.epoch.Load() == p.epoch {
		return dst
	}
	return s.Match(subject, dst[:before]) // clients have changed during the match; match again for a consistent result
}

// MatchRule returns the result of the rule with the given id, without evaluating its condition. It returns false if
// there is no such rule. It allocates if a registered client has its own limit; AppendRule does not.
func (s *Set) MatchRule(id string, subject rules.Subject) (m Result, ok bool) {
	ok = s.matchRule(id, subject, &m)
	if m.hasInlineLimit {
		m.Limits = []rules.Limit{m.inlineLimit[0]}
	}
	return m, ok
}

// AppendRule is like MatchRule, but appends the result to dst. It allocates nothing if dst has room.
func (s *Set) AppendRule(id string, subject rules.Subject, dst []Result) ([]Result, bool) {
	n := len(dst)
	dst = slices.Grow(dst, 1)[:n+1]
	m := &dst[n]
	if !s.matchRule(id, subject, m) {
		return dst[:n], false
	}
	if m.hasInlineLimit {
		m.Limits = m.inlineLimit[:]
	}
	return dst, true
}

func (s *Set) matchRule(id string, subject rules.Subject, m *Result) bool {
	rank, ok := s.byID[id]
	if !ok {
		return false
	}
	for {
		var p probe
		p.start(s, subject)
		s.resolve(&s.rules[rank], m, &p)
		if p.lowerCaser != nil {
			p.lowerCaser.detach(m)
			p.lowerCaser.release()
		}
		if s.epoch.Load() == p.epoch {
			return true
		}
	}
}

// Rule returns the rule with the given id, with its defaults filled in. It returns nil if there is no such rule, or if
// it is disabled. The rule is read-only.
func (s *Set) Rule(id string) *rules.Rule {
	if rank, ok := s.byID[id]; ok {
		return s.rules[rank].rule
	}
	return nil
}

// Rules returns the enabled rules in their order. They are read-only.
func (s *Set) Rules() []*rules.Rule {
	list := make([]*rules.Rule, len(s.rules))
	for i := range s.rules {
		list[i] = s.rules[i].rule
	}
	return list
}

// Attributes returns the attributes that conditions, keys and costs of the enabled rules use. No other attributes of a
// request are read.
func (s *Set) Attributes() []headgate.Attribute {
	var list []headgate.Attribute
	for _, src := range s.attrs {
		if a := src.attribute; a.Kind != headgate.AttrClient && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	for i := range s.rules {
		a := headgate.Attribute{Kind: headgate.AttrHeader, Name: s.rules[i].rule.Cost.Header}
		if a.Name != "" && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

// Len returns the number of enabled rules.
func (s *Set) Len() int { return len(s.rules) }

// exempt applies the first result of an unlimited rule. This rule exempts the request from all rules whose priority is
// not higher, unless they block the request.
func exempt(m []Result) {
	var from *rules.Rule // the first is the one with the highest priority
	for i := range m {
		if m[i].Effect == Unlimited && m[i].Rule.Unlimited {
			from = m[i].Rule
			break
		}
	}
	for i := range m {
		if r := m[i].Rule; !r.Unlimited && m[i].Effect != Blocked && r.Priority <= from.Priority {
			m[i].Effect, m[i].Limits = Exempted, nil
		}
	}
}
