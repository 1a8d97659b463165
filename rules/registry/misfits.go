package registry

import (
	"cmp"
	"runtime"
	"slices"
	"strings"

	"github.com/headgate/headgate/rules"
)

// Misfits are registered clients with equal limits of their own that the rules of a set cannot use.
type Misfits struct {
	// Like is one of them, with only its attributes, limits and rules.
	Like rules.Client
	// Count is the number of such clients.
	Count int
	// Problems are the reasons, by paths below a client: "limits[0]".
	Problems []rules.Problem
}

// Misfits returns the clients whose limits the requirements do not allow, grouped by their limits: at most
// rules.MaxProblems groups. More is the number of clients in other groups. It may miss clients that are added or
// removed meanwhile. It takes some nanoseconds per client if no limit of a client is required to be different.
func (r *Registry) Misfits(required *rules.Requirements) (list []Misfits, more int) {
	m := misfitCollector{
		required: required, accepted: map[uint64]bool{}, byWord: map[uint64]int{}, byText: map[string]int{},
	}
	m.tried.Limits = make([]rules.Limit, 1)
	r.each(m.check)
	slices.SortFunc(m.list, func(a, b Misfits) int { return cmp.Compare(misfitText(&a), misfitText(&b)) })
	return m.list, m.more
}

// A misfitCollector collects the misfits of a registry.
type misfitCollector struct {
	required *rules.Requirements
	tried    rules.Client    // with one limit, reused for each check
	accepted map[uint64]bool // packed limits of plain clients that can be used; at most maxAccepted
	list     []Misfits
	byWord   map[uint64]int // index in list by the packed limit of a plain client
	byText   map[string]int // index in list by misfitText
	more     int
}

// maxAccepted limits how many packed limits are remembered as accepted: there may be as many as clients.
const maxAccepted = 4096

// check checks a client against the requirements.
func (m *misfitCollector) check(c Found) {
	if !c.OneLimit() {
		if len(c.grants.limits)+len(c.grants.rules) > 0 {
			m.add(registeredClient{Found: c}.toClient(), 0)
		}
		return
	}
	if m.required.AnyLimit() {
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
	if m.required.Conflicts(&m.tried) != nil {
		m.add(&rules.Client{Attributes: m.tried.Attributes, Limits: slices.Clone(m.tried.Limits)}, word)
	} else if word != 0 && len(m.accepted) < maxAccepted {
		m.accepted[word] = true
	}
}

// userOnly are the attributes of plain clients.
var userOnly = []rules.Test{{Attribute: byUser}}

// add adds a client if it has problems. Word is its packed limit if it is plain and has nothing else.
func (m *misfitCollector) add(c *rules.Client, word uint64) {
	problems := m.required.Conflicts(c)
	if len(problems) == 0 {
		return
	}
	misfits := Misfits{
		Like:  rules.Client{Attributes: c.Attributes, Limits: c.Limits, Rules: c.Rules},
		Count: 1, Problems: problems,
	}
	text := misfitText(&misfits)
	if at, known := m.byText[text]; known { // perhaps with other properties
		m.list[at].Count++
		if word != 0 {
			m.byWord[word] = at
		}
		return
	}
	if len(m.list) == rules.MaxProblems {
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
func (r *Registry) each(do func(Found)) {
	t := r.values.cells.Load()
	if t == nil {
		return
	}
	for at := range t.list {
		if at%yieldEvery == yieldEvery-1 {
			runtime.Gosched()
		}
		c := r.values.at(t, at)
		if c.Absent() || !c.plain() && !t.matches(at, r.hash(c.attributes[0].Attribute, c.attributes[0].Values[0])) {
			continue // a client with several values counts once, by the first
		}
		do(c)
	}
}
