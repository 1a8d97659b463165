package rules

import (
	"cmp"
	"runtime"
	"slices"
	"strings"

	"github.com/headgate/headgate"
)

// Misfits are registered clients with equal limits of their own that the rules of a set cannot use.
type Misfits struct {
	// Like is one of them, with only its attributes, limits and rules.
	Like Client
	// Count is the number of such clients.
	Count int
	// Problems are the reasons, by paths below a client: "limits[0]".
	Problems []Problem
}

// Misfits returns the clients of a registry whose limits cannot be used under the rules, grouped by their limits: at
// most MaxProblems groups. More is the number of clients in other groups. If before is not nil, its clients are assumed
// to be valid under before and are checked only against requirements that before does not have. Mostly there are none,
// and the check takes some nanoseconds per client.
//
// It is Check for all clients. It may miss clients that are added or removed meanwhile.
func (s *Set) Misfits(in *Registry, before *Set) (list []Misfits, more int) {
	m := misfitCollector{
		requirements: s.requirements, accepted: map[uint64]bool{}, byWord: map[uint64]int{}, byText: map[string]int{},
	}
	if before != nil {
		m.requirements = s.requirements.since(&before.requirements)
	}
	m.tried.Limits = make([]Limit, 1)
	in.each(m.check)
	slices.SortFunc(m.list, func(a, b Misfits) int { return cmp.Compare(misfitText(&a), misfitText(&b)) })
	return m.list, m.more
}

// since returns the requirements that other does not have. It returns all requirements by rule id.
func (n *requirements) since(other *requirements) requirements {
	added := requirements{byRule: n.byRule}
	for a, list := range n.byAttribute {
		for _, required := range list {
			same := func(o ruleRequirement) bool { return *o.requirement == *required.requirement }
			if slices.ContainsFunc(other.byAttribute[a], same) {
				continue
			}
			if added.byAttribute == nil {
				added.byAttribute = map[headgate.Attribute][]ruleRequirement{}
			}
			added.byAttribute[a] = append(added.byAttribute[a], required)
		}
	}
	return added
}

// A misfitCollector collects the misfits of a registry.
type misfitCollector struct {
	requirements requirements
	tried        Client          // with one limit, reused for each check
	accepted     map[uint64]bool // packed limits of plain clients that can be used; at most maxAccepted
	list         []Misfits
	byWord       map[uint64]int // index in list by the packed limit of a plain client
	byText       map[string]int // index in list by misfitText
	more         int
}

// maxAccepted limits how many packed limits are remembered as accepted: there may be as many as clients.
const maxAccepted = 4096

// check checks a client against the requirements.
func (m *misfitCollector) check(c clientRecord) {
	if !c.oneLimit() {
		if len(c.grants.limits)+len(c.grants.rules) > 0 {
			m.add(registeredClient{clientRecord: c}.toClient(), 0)
		}
		return
	}
	if len(m.requirements.byAttribute) == 0 {
		return
	}
	word := uint64(0)
	m.tried.Attributes = userOnly
	if c.plain() {
		if word = c.packed.word; m.accepted[word] {
			return
		}
		if at, known := m.byWord[word]; known {
			m.list[at].Count++
			return
		}
	} else {
		m.tried.Attributes = c.attributes
	}
	c.packed.unpack(&m.tried.Limits[0])
	if _, want := m.requirements.conflict(&m.tried, &m.tried.Limits[0]); want != "" {
		m.add(&Client{Attributes: m.tried.Attributes, Limits: slices.Clone(m.tried.Limits)}, word)
	} else if word != 0 && len(m.accepted) < maxAccepted {
		m.accepted[word] = true
	}
}

// userOnly are the attributes of plain clients.
var userOnly = []Test{{Attribute: byUser}}

// add adds a client if it has problems. Word is its packed limit if it is plain and has nothing else.
func (m *misfitCollector) add(c *Client, word uint64) {
	var p problems
	m.requirements.check(c, &location{name: "client"}, &p)
	if len(p.list) == 0 {
		return
	}
	misfits := Misfits{
		Like:  Client{Attributes: c.Attributes, Limits: c.Limits, Rules: c.Rules},
		Count: 1, Problems: p.list,
	}
	for i := range p.list {
		p.list[i].Path = strings.TrimPrefix(p.list[i].Path, "client.")
	}
	text := misfitText(&misfits)
	if at, known := m.byText[text]; known { // perhaps with other properties
		m.list[at].Count++
		if word != 0 {
			m.byWord[word] = at
		}
		return
	}
	if len(m.list) == MaxProblems {
		m.more++
		return
	}
	if word != 0 {
		m.byWord[word] = len(m.list)
	}
	m.byText[text] = len(m.list)
	m.list = append(m.list, misfits)
}

// misfitText returns a text that is equal for misfits of one group.
func misfitText(m *Misfits) string {
	var text strings.Builder
	for _, l := range m.Like.Limits {
		text.WriteString(l.Name + " " + l.String() + "\n")
	}
	for _, r := range m.Like.Rules {
		text.WriteString(r.ID + "\n")
		for _, l := range r.Limits {
			text.WriteString(l.Name + " " + l.String() + "\n")
		}
	}
	for _, p := range m.Problems {
		text.WriteString(p.String() + "\n")
	}
	return text.String()
}

// yieldEvery is the number of cells after which each yields the processor.
const yieldEvery = 4096

// each calls do for every client once.
func (r *Registry) each(do func(clientRecord)) {
	t := r.values.cells.Load()
	if t == nil {
		return
	}
	for at := range t.list {
		if at%yieldEvery == yieldEvery-1 {
			runtime.Gosched()
		}
		c := r.values.at(t, at)
		if c.absent() || !c.plain() && !t.matches(at, r.hash(c.attributes[0].Attribute, c.attributes[0].Values[0])) {
			continue // a client with several values counts once, by the first
		}
		do(c)
	}
}
