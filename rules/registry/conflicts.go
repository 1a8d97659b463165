package registry

import (
	"cmp"
	"slices"
	"strings"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/internal/yield"
)

// A ConflictGroup describes registered clients with equal limits that cannot be used under the rules.
type ConflictGroup struct {
	// Example is one of the clients, with only its attributes, limits and rules.
	Example rules.Client
	// Count is the number of clients in the group.
	Count int
	// Problems say why the limits cannot be used. Their paths begin at the client: "limits[0]".
	Problems []rules.Problem
}

// Conflicts returns the clients whose limits do not meet the requirements, grouped by their limits. It returns at most
// rules.MaxProblems groups; more is the number of clients in other groups. It may miss clients that are added or
// removed while it runs. If all limits meet the requirements, it takes a few nanoseconds per client.
func (r *Registry) Conflicts(required *rules.Requirements) (list []ConflictGroup, more int) {
	c := conflictCollector{required: required, allowed: map[Client]bool{}, groups: map[string]int{}}
	slots := r.values.slots.Load()
	if slots == nil {
		return nil, 0
	}
	var work yield.Yielder
	for i := range *slots {
		work.Step()
		s := &(*slots)[i]
		e := s.entry.Load()
		if e == nil || e == removedEntry || e.details != nil && s.hash != r.firstHash(e.details) {
			continue // a client with several values is checked once, in the slot of its first value
		}
		c.check(Client{e, s.count})
	}
	slices.SortFunc(c.list, func(a, b ConflictGroup) int { return cmp.Compare(a.text(), b.text()) })
	return c.list, c.more
}

// firstHash returns the hash of the first value of a client.
func (r *Registry) firstHash(d *details) valueHash {
	return r.hash(d.attributes[0].Attribute, d.attributes[0].Values[0])
}

// A conflictCollector collects the conflicts of a registry.
type conflictCollector struct {
	required *rules.Requirements
	allowed  map[Client]bool // clients without details that have no problems, at most maxShared
	list     []ConflictGroup
	groups   map[string]int // indexes in list, by ConflictGroup.text
	more     int
}

// check adds a client to its group if it has problems.
func (c *conflictCollector) check(found Client) {
	if found.details == nil && (!found.hasLimit || c.required.AnyLimit() || c.allowed[found]) {
		return
	}
	client := found.client("")
	problems := c.required.Conflicts(client)
	if len(problems) == 0 {
		if found.details == nil && len(c.allowed) < maxShared {
			c.allowed[found] = true
		}
		return
	}
	group := ConflictGroup{
		Example: rules.Client{Attributes: client.Attributes, Limits: client.Limits, Rules: client.Rules},
		Count:   1, Problems: problems,
	}
	text := group.text()
	if i, ok := c.groups[text]; ok {
		c.list[i].Count++
		return
	}
	if len(c.list) == rules.MaxProblems {
		c.more++
		return
	}
	c.groups[text] = len(c.list)
	c.list = append(c.list, group)
}

// text returns a text that identifies the group: it is equal for clients with equal limits and problems.
func (g *ConflictGroup) text() string {
	var text strings.Builder
	for _, l := range g.Example.Limits {
		text.WriteString(l.Name + " " + l.String() + "\n")
	}
	for _, r := range g.Example.Rules {
		text.WriteString(r.ID + "\n")
		for _, l := range r.Limits {
			text.WriteString(l.Name + " " + l.String() + "\n")
		}
	}
	for _, p := range g.Problems {
		text.WriteString(p.String() + "\n")
	}
	return text.String()
}
