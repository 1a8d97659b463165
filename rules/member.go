package rules

import (
	"cmp"
	"slices"
	"strings"
	"unique"

	"github.com/headgate/headgate"
)

// found is what is kept of a client: mostly a limit and nothing else. It is nobody's if there is nothing.
type found struct {
	*registered // nil if the limit is all that there is to say of the user of its id

	short short // the limit, unless registered says otherwise
}

// registered is what is kept of a client that has not just one limit, or is not just the user of its id. It never changes.
type registered struct {
	short       short    // its limit, if that is all that it has
	has         *several // nil if it is
	id          string   // empty if it is plain: the user of its id
	description string
	attributes  []Test
	properties  properties
}

// several is what a client has that has not just one limit, under all rules.
type several struct {
	limits    []Limit
	rules     []ClientRule
	unlimited bool
	block     bool
}

// Many clients have nothing but this.
var (
	nothing    = &registered{has: &several{}}
	everything = &registered{has: &several{unlimited: true}}
	blocked    = &registered{has: &several{block: true}}
)

func (c *registered) apart() found { return found{c, c.short} }

func (f found) nobody() bool { return f.registered == nil && f.short.shape == nil }

// word returns what a seat of the client says.
func (f found) word() uint64 {
	switch f.registered {
	case nil:
		return f.short.word // vacant if it is nobody
	case nothing:
		return cmp.Or(f.short.word, asNothing)
	case everything:
		return cmp.Or(f.short.word, asEverything)
	case blocked:
		return cmp.Or(f.short.word, asBlocked)
	default:
		return apart
	}
}

// described returns the properties of the client.
func (f found) described() properties {
	switch {
	case f.registered != nil && f.properties != "":
		return f.properties
	case f.short.shape != nil:
		return f.short.shape.properties
	default:
		return ""
	}
}

// plain tells whether the client is the user of its id, and nothing else is said of it but properties.
func (f found) plain() bool { return f.registered == nil || f.id == "" }

// one tells whether the client has its short limit under all rules, and nothing else.
func (f found) one() bool { return f.registered == nil || f.has == nil }

// under returns what a client has under a rule that has not just one limit.
func (c *several) under(rule string) (limits []Limit, unlimited, block bool) {
	for i := range c.rules {
		if r := &c.rules[i]; r.ID == rule {
			return r.Limits, r.Unlimited, r.Block
		}
	}
	return c.limits, c.unlimited, c.block
}

// idOf returns the id of a client that a value has led to.
func (f found) idOf(value string) string {
	if f.plain() {
		return value
	}
	return f.id
}

// A member is a client of a registry: nobody, if there is nothing of him.
type member struct {
	found

	name string // its id
}

// attributes are those that name the client; none if it is the user of its id.
func (m member) attributes() []Test {
	if m.plain() {
		return nil
	}
	return m.registered.attributes
}

// named tells whether the value of an attribute names the client.
func (m member) named(a headgate.Attribute, value string) bool {
	list := m.attributes()
	if list == nil {
		return a == byUser && m.name == value
	}
	for i := range list {
		if t := &list[i]; t.Attribute == a {
			return slices.Contains(t.Values, value)
		}
	}
	return false
}

var byUser = headgate.Attribute{Kind: headgate.AttrUser}

// itself tells whether the client is the user of its id.
func (m member) itself() bool { return m.named(byUser, m.name) }

// each calls do for all values that name the client, until it is false.
func (m member) each(do func(a headgate.Attribute, value string) bool) {
	list := m.attributes()
	if list == nil {
		do(byUser, m.name)
		return
	}
	for _, t := range list {
		for _, value := range t.Values {
			if !do(t.Attribute, value) {
				return
			}
		}
	}
}

// client returns it as it was given, with its defaults filled in.
func (m member) client() *Client {
	made := &Client{ID: m.name, Attributes: m.attributes(), Properties: m.described().list()}
	if made.Attributes == nil {
		made.Attributes = []Test{{byUser, []string{m.name}}}
	}
	if m.registered != nil {
		made.Description = m.description
	}
	if m.one() {
		made.Limits = make([]Limit, 1)
		m.short.to(&made.Limits[0])
	} else {
		made.Limits, made.Rules, made.Unlimited, made.Block = m.has.limits, m.has.rules, m.has.unlimited, m.has.block
	}
	return made
}

// keep returns a client as it is kept, with texts of its own: those given may be parts of a file.
func (r *Registry) keep(c *Client) member {
	of := newProperties(c.Properties)
	named := len(c.Attributes) == 1 && c.Attributes[0].Attribute == byUser && slices.Equal(c.Attributes[0].Values, []string{c.ID})
	if named && c.Description == "" {
		return member{found: r.keepPlain(c, of), name: c.ID}
	}
	has, limit := r.keepLimits(c, "")
	made := &registered{
		short: limit, has: has, id: strings.Clone(c.ID), description: strings.Clone(c.Description), attributes: c.Attributes, properties: of,
	}
	for i := range c.Attributes { // normal has copied them
		t := &c.Attributes[i]
		t.Attribute.Name = strings.Clone(t.Attribute.Name)
		for j, value := range t.Values {
			t.Values[j] = strings.Clone(value)
		}
	}
	return member{made.apart(), made.id}
}

// keepPlain returns what is kept of a client that is the user of its id: most find room in a seat.
func (r *Registry) keepPlain(c *Client, of properties) found {
	has, in := r.keepLimits(c, of)
	if of != "" && in.shape == nil { // there are too many others
		has, in = r.keepLimits(c, "")
		return (&registered{short: in, has: has, properties: of}).apart()
	}
	switch has {
	case nil:
		return found{short: in}
	case nothing.has:
		return found{nothing, in}
	case everything.has:
		return found{everything, in}
	case blocked.has:
		return found{blocked, in}
	default:
		return found{registered: &registered{has: has}}
	}
}

// keepLimits returns what a client has, or its one limit. What is in short is so with its properties.
func (r *Registry) keepLimits(c *Client, of properties) (*several, short) {
	switch {
	case len(c.Rules) > 0 || len(c.Limits) > 1:
		for i := range c.Rules { // normal has copied them
			r := &c.Rules[i]
			r.ID, r.Limits = strings.Clone(r.ID), cloneLimits(r.Limits)
		}
	case c.Unlimited:
		return everything.has, r.shapes.describe(everything, of)
	case c.Block:
		return blocked.has, r.shapes.describe(blocked, of)
	case len(c.Limits) == 0:
		return nothing.has, r.shapes.describe(nothing, of)
	default:
		if limit, ok := r.shapes.shorten(c.Limits[0], of); ok {
			return nil, limit
		}
	}
	return &several{cloneLimits(c.Limits), c.Rules, c.Unlimited, c.Block}, short{}
}

func cloneLimits(list []Limit) []Limit {
	made := append([]Limit(nil), list...)
	for i := range made {
		made[i].Name = unique.Make(made[i].Name).Value() // few are different
	}
	return made
}
