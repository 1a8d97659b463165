package rules

import (
	"cmp"
	"runtime"
	"slices"
	"strings"

	"github.com/headgate/headgate"
)

// Misfits are registered clients who have the same of their own, which the rules of a set cannot use.
type Misfits struct {
	// Like is one of them. Only what it is known by and what it has is told.
	Like Client
	// Count is how many there are.
	Count int
	// Problems are what is wrong, by paths below a client: "limits[0]".
	Problems []Problem
}

// Misfits returns the clients of a registry whose limits cannot be used under the rules, by what they have: at most MaxProblems
// different ones. More is how many clients there are besides. Those who can be used under the rules of before, if that is not nil, are
// only held against what is asked anew, which mostly is nothing: then it takes some nanoseconds a client.
//
// It is Check for all of them. Of clients who come and go meanwhile it may miss some.
func (s *Set) Misfits(in *Registry, before *Set) (list []Misfits, more int) {
	m := gathering{asks: s.needs, fine: map[uint64]bool{}, words: map[uint64]int{}, texts: map[string]int{}}
	if before != nil {
		m.asks = s.needs.since(&before.needs)
	}
	m.tried.Limits = make([]Limit, 1)
	in.each(m.hold)
	slices.SortFunc(m.list, func(a, b Misfits) int { return cmp.Compare(textOf(&a), textOf(&b)) })
	return m.list, m.more
}

// since returns what is asked of clients that another did not ask. Of rules that clients name it is all.
func (n *needs) since(other *needs) needs {
	made := needs{byRule: n.byRule}
	for a, list := range n.byAttribute {
		for _, asked := range list {
			same := func(o namedNeed) bool { return *o.need == *asked.need }
			if slices.ContainsFunc(other.byAttribute[a], same) {
				continue
			}
			if made.byAttribute == nil {
				made.byAttribute = map[headgate.Attribute][]namedNeed{}
			}
			made.byAttribute[a] = append(made.byAttribute[a], asked)
		}
	}
	return made
}

// A gathering of misfits is under way.
type gathering struct {
	asks  needs
	tried Client          // with one limit, to ask for
	fine  map[uint64]bool // the short limits of plain clients that can be used, some of them
	list  []Misfits
	words map[uint64]int // where in list those are who are plain and have a short limit
	texts map[string]int // where all of them are
	more  int
}

// maxFine is how many short limits are remembered as fine: there may be as many as clients.
const maxFine = 4096

// hold holds a client against what is asked.
func (m *gathering) hold(c found) {
	if !c.one() {
		if len(c.has.limits)+len(c.has.rules) > 0 {
			m.refused(member{found: c}.client(), 0)
		}
		return
	}
	if len(m.asks.byAttribute) == 0 {
		return
	}
	word := uint64(0)
	m.tried.Attributes = aUser
	if c.plain() {
		if word = c.short.word; m.fine[word] {
			return
		}
		if at, known := m.words[word]; known {
			m.list[at].Count++
			return
		}
	} else {
		m.tried.Attributes = c.attributes
	}
	c.short.to(&m.tried.Limits[0])
	if _, want := m.asks.refuses(&m.tried, &m.tried.Limits[0]); want != "" {
		m.refused(&Client{Attributes: m.tried.Attributes, Limits: slices.Clone(m.tried.Limits)}, word)
	} else if word != 0 && len(m.fine) < maxFine {
		m.fine[word] = true
	}
}

// aUser is what plain clients are known by.
var aUser = []Test{{Attribute: byUser}}

// refused adds a client if it is wrong. Word is its short limit if it is plain and has nothing else.
func (m *gathering) refused(c *Client, word uint64) {
	var p problems
	m.asks.check(c, &place{name: "client"}, &p)
	if len(p.list) == 0 {
		return
	}
	made := Misfits{Like: Client{Attributes: c.Attributes, Limits: c.Limits, Rules: c.Rules}, Count: 1, Problems: p.list}
	for i := range p.list {
		p.list[i].Path = strings.TrimPrefix(p.list[i].Path, "client.")
	}
	text := textOf(&made)
	if at, known := m.texts[text]; known { // with other properties, perhaps
		m.list[at].Count++
		if word != 0 {
			m.words[word] = at
		}
		return
	}
	if len(m.list) == MaxProblems {
		m.more++
		return
	}
	if word != 0 {
		m.words[word] = len(m.list)
	}
	m.texts[text] = len(m.list)
	m.list = append(m.list, made)
}

// textOf returns what misfits have in common.
func textOf(m *Misfits) string {
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

// restEvery is after how many seats those who wait for the processor are let pass.
const restEvery = 4096

// each calls do for every client once.
func (r *Registry) each(do func(found)) {
	t := r.values.seats.Load()
	if t == nil {
		return
	}
	for at := range t.list {
		if at%restEvery == restEvery-1 {
			runtime.Gosched()
		}
		c := r.values.at(t, at)
		if c.nobody() || !c.plain() && !t.is(at, r.sum(c.attributes[0].Attribute, c.attributes[0].Values[0])) {
			continue // a client of several values counts once, by the first
		}
		do(c)
	}
}
