package rules

import (
	"slices"

	"github.com/headgate/headgate"
)

// A Set is rules made ready to be matched. It never changes, and is safe for concurrent use.
type Set struct {
	rules []compiled // in order: by priority, then as they were given
	conds []cond
	index *index
	all   []int32 // the ranks of all rules, if no condition has to be looked at; else nil
	slots []headgate.Attribute
	byID  map[string]int32
	fixed *Registry // the clients given to Compile
	live  *Registry // those who come and go; nil if there are none
	needs needs     // what clients' limits are asked
	shown *showing  // how much of fixed is to be seen

	// namers are the slots of the attributes by which a client is found whose properties the condition of a rule asks for, and
	// described those slots that are such properties, of the slots that a probe remembers. Both are empty if no rule asks.
	namers    []int32
	described uint32
}

// A Matched is a rule that a request matches, and what it says of it. Everything that it points to is read only.
type Matched struct {
	// Rule is the rule, with its defaults filled in.
	Rule *Rule
	// Place is where it stands in Set.Rules: for who keeps something for each rule, and compares Rule before using it.
	Place int
	// Effect is what the rule does.
	Effect Effect
	// Shared tells that the key is not the client's own: it is asked after those that are.
	Shared bool
	// Override is the place in Rule.Overrides of the override that decided, -1 if none did.
	Override int
	// Client is the id of the registered client, empty if it is not registered or the rule counts by other attributes. It may be
	// a value of the subject.
	Client string
	// Limits are what may pass, if Effect is Limited.
	Limits []Limit

	rule   *compiled
	value  string // of the key, if that is one attribute
	byIP   bool   // the key is the address, because an attribute of the rule's key is missing
	client bool   // the limits are the client's
	short  bool   // there is one, in own
	own    [1]Limit
}

// Simple tells that the rule counts as most do, and how many units a request takes: what is over its limits is rejected, the
// cost is a number, there is no penalty, and everything about the store is as it comes. Nothing of Rule need be looked at then.
func (m *Matched) Simple() (units int64, ok bool) {
	if m.rule == nil {
		return 0, false
	}
	return m.rule.units, m.rule.simple
}

// An Effect is what a rule does to a request.
type Effect uint8

// The effects.
const (
	Limited       Effect = iota // its limits decide
	Unlimited                   // lets it pass: unlimited
	Exempted                    // lets it pass: another rule exempts it from this one
	Skipped                     // lets it pass: it lacks an attribute of the key, and there is nothing else to count it by
	Blocked                     // denies it: block
	Unidentified                // denies it: it lacks an attribute of the key
	UnknownClient               // denies it: its client is not registered
	Ambiguous                   // denies it: an attribute of the key was sent several times with different values
)

var effectWords = []string{"limited", "unlimited", "exempted", "skipped", "blocked", "unidentified", "unregistered", "ambiguous"}

func (e Effect) String() string { return word(effectWords, uint8(e)) }

// Denies tells whether the rule denies the request whatever was consumed.
func (e Effect) Denies() bool { return e >= Blocked }

// Match appends all rules that match to dst, in their order, and returns it. It allocates nothing if dst has room, unless
// more than 32 rules match.
func (s *Set) Match(subject Subject, dst []Matched) []Matched {
	var p probe
	p.of(s, subject)
	ranks := s.all
	if ranks == nil {
		var c collector
		c.conds, c.limit = s.conds, manyMatches
		s.index.find(&c, &p)
		ranks = c.found()
	}
	before := len(dst)
	if cap(dst)-before < len(ranks) {
		dst = slices.Grow(dst, len(ranks))
	}
	dst = dst[:before+len(ranks)]
	exempts := false
	for i, rank := range ranks {
		r, m := &s.rules[rank], &dst[before+i]
		if r.plain {
			m.plain(r, &p)
			if p.clients && m.Effect == Limited {
				s.own(m, &p)
			}
			continue
		}
		s.resolve(r, m, &p)
		if m.short {
			m.Limits = m.own[:]
		}
		exempts = exempts || r.unlimited
	}
	if exempts {
		exempt(dst[before:])
	}
	if s.shown.Load() == p.era {
		return dst
	}
	return s.Match(subject, dst[:before]) // some of it may be from before a change and some from after
}

// MatchRule resolves the one rule of that id without asking whether it matches. It is false if there is no such rule. It
// allocates if the limit is a registered client's own; AppendRule does not.
func (s *Set) MatchRule(id string, subject Subject) (m Matched, ok bool) {
	ok = s.matchRule(id, subject, &m)
	if m.short {
		m.Limits = []Limit{m.own[0]}
	}
	return m, ok
}

// AppendRule is MatchRule, appended to dst if there is such a rule. It allocates nothing if dst has room.
func (s *Set) AppendRule(id string, subject Subject, dst []Matched) ([]Matched, bool) {
	n := len(dst)
	dst = slices.Grow(dst, 1)[:n+1]
	m := &dst[n]
	if !s.matchRule(id, subject, m) {
		return dst[:n], false
	}
	if m.short {
		m.Limits = m.own[:]
	}
	return dst, true
}

func (s *Set) matchRule(id string, subject Subject, m *Matched) bool {
	rank, ok := s.byID[id]
	if !ok {
		return false
	}
	for {
		var p probe
		p.of(s, subject)
		s.resolve(&s.rules[rank], m, &p)
		if s.shown.Load() == p.era {
			return true
		}
	}
}

// Rule returns the rule of that id with its defaults filled in, nil if there is none in force. It is read only.
func (s *Set) Rule(id string) *Rule {
	if rank, ok := s.byID[id]; ok {
		return s.rules[rank].rule
	}
	return nil
}

// Rules returns the rules in force in their order. They are read only.
func (s *Set) Rules() []*Rule {
	list := make([]*Rule, len(s.rules))
	for i := range s.rules {
		list[i] = s.rules[i].rule
	}
	return list
}

// Attributes returns what the rules in force look at, in conditions, keys and costs. Nothing else of a request is needed.
func (s *Set) Attributes() []headgate.Attribute {
	var list []headgate.Attribute
	for _, a := range s.slots {
		if a, _ = unformed(a); a.Kind != headgate.AttrClient && !slices.Contains(list, a) {
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

// Len returns how many rules are in force.
func (s *Set) Len() int { return len(s.rules) }

// exempt frees a request from rules that have no higher priority than one that exempts it, unless they block it.
func exempt(m []Matched) {
	var from *Rule // the first is the one with the highest priority
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
