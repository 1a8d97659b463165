package registry

import (
	"cmp"
	"slices"
	"strings"
	"unique"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A Found is a client that a lookup has found: mostly one limit and nothing else. The zero value means that there is no
// client.
type Found struct {
	*clientDetails // nil if the client is the user of its id and has only the limit

	packed packedLimit // the limit, unless clientDetails says otherwise
}

// clientDetails describes a client that has not exactly one limit, or is not just the user of its id. It never changes.
type clientDetails struct {
	packed      packedLimit   // its limit, if grants is nil
	grants      *clientGrants // nil if it has one limit under all rules
	id          string        // empty if it is plain: the user of its id
	description string
	attributes  []rules.Test
	properties  properties
}

// clientGrants is what a client has if that is not exactly one limit under all rules.
type clientGrants struct {
	limits    []rules.Limit
	rules     []rules.ClientRule
	unlimited bool
	block     bool
}

// Details shared by all clients that have nothing else.
var (
	noGrants        = &clientDetails{grants: &clientGrants{}}
	unlimitedGrants = &clientDetails{grants: &clientGrants{unlimited: true}}
	blockGrants     = &clientDetails{grants: &clientGrants{block: true}}
)

func (c *clientDetails) record() Found { return Found{c, c.packed} }

// Absent reports whether there is no client.
func (f Found) Absent() bool { return f.clientDetails == nil && f.packed.shape == nil }

// word returns the content of the client's cell.
func (f Found) word() uint64 {
	switch f.clientDetails {
	case nil:
		return f.packed.word // wordFree if there is no client
	case noGrants:
		return cmp.Or(f.packed.word, wordNoGrants)
	case unlimitedGrants:
		return cmp.Or(f.packed.word, wordUnlimited)
	case blockGrants:
		return cmp.Or(f.packed.word, wordBlocked)
	default:
		return wordOverflow
	}
}

// described returns the properties of the client.
func (f Found) described() properties {
	switch {
	case f.clientDetails != nil && f.properties != "":
		return f.properties
	case f.packed.shape != nil:
		return f.packed.shape.properties
	default:
		return ""
	}
}

// Property returns a property of the client, and whether it has the property.
func (f Found) Property(name string) (string, bool) { return f.described().get(name) }

// plain reports whether the client is the user of its id and has no attributes or description.
func (f Found) plain() bool { return f.clientDetails == nil || f.id == "" }

// OneLimit reports whether the client has its packed limit under all rules, and nothing else.
func (f Found) OneLimit() bool { return f.clientDetails == nil || f.grants == nil }

// UnpackLimit writes the limit of a client with OneLimit to l.
func (f Found) UnpackLimit(l *rules.Limit) { f.packed.unpack(l) }

// Grants returns what a client without OneLimit has under a rule.
func (f Found) Grants(rule string) (limits []rules.Limit, unlimited, block bool) {
	return f.grants.forRule(rule)
}

func (c *clientGrants) forRule(rule string) (limits []rules.Limit, unlimited, block bool) {
	for i := range c.rules {
		if r := &c.rules[i]; r.ID == rule {
			return r.Limits, r.Unlimited, r.Block
		}
	}
	return c.limits, c.unlimited, c.block
}

// ClientID returns the id of a client that was found by a value.
func (f Found) ClientID(value string) string {
	if f.plain() {
		return value
	}
	return f.id
}

// A registeredClient is a client of a registry. It is absent if its record is.
type registeredClient struct {
	Found

	name string // its id
}

// attributes returns the attributes that identify the client; none if it is the user of its id.
func (m registeredClient) attributes() []rules.Test {
	if m.plain() {
		return nil
	}
	return m.clientDetails.attributes
}

// hasValue reports whether the value of an attribute identifies the client.
func (m registeredClient) hasValue(a headgate.Attribute, value string) bool {
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

// isOwnUser reports whether the client is the user of its id.
func (m registeredClient) isOwnUser() bool { return m.hasValue(byUser, m.name) }

// eachValue calls do for all values that identify the client, until do returns false.
func (m registeredClient) eachValue(do func(a headgate.Attribute, value string) bool) {
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

// toClient returns the client as it was given, with its defaults filled in.
func (m registeredClient) toClient() *rules.Client {
	c := &rules.Client{ID: m.name, Attributes: m.attributes(), Properties: m.described().list()}
	if c.Attributes == nil {
		c.Attributes = []rules.Test{{Attribute: byUser, Values: []string{m.name}}}
	}
	if m.clientDetails != nil {
		c.Description = m.description
	}
	if m.OneLimit() {
		c.Limits = make([]rules.Limit, 1)
		m.packed.unpack(&c.Limits[0])
	} else {
		c.Limits, c.Rules, c.Unlimited, c.Block = m.grants.limits, m.grants.rules, m.grants.unlimited, m.grants.block
	}
	return c
}

// newRecord returns the stored form of a client. It copies texts, because they may be parts of a large file.
func (r *Registry) newRecord(c *rules.Client) registeredClient {
	of := newProperties(c.Properties)
	named := len(c.Attributes) == 1 && c.Attributes[0].Attribute == byUser &&
		slices.Equal(c.Attributes[0].Values, []string{c.ID})
	if named && c.Description == "" {
		return registeredClient{Found: r.plainRecord(c, of), name: c.ID}
	}
	has, limit := r.packGrants(c, "")
	details := &clientDetails{
		packed: limit, grants: has, id: strings.Clone(c.ID), description: strings.Clone(c.Description),
		attributes: c.Attributes, properties: of,
	}
	for i := range c.Attributes { // withDefaults has copied them
		t := &c.Attributes[i]
		t.Attribute.Name = strings.Clone(t.Attribute.Name)
		for j, value := range t.Values {
			t.Values[j] = strings.Clone(value)
		}
	}
	return registeredClient{details.record(), details.id}
}

// plainRecord returns the record of a client that is the user of its id. Most fit into a cell.
func (r *Registry) plainRecord(c *rules.Client, of properties) Found {
	has, in := r.packGrants(c, of)
	if of != "" && in.shape == nil { // the table of shapes is full
		has, in = r.packGrants(c, "")
		return (&clientDetails{packed: in, grants: has, properties: of}).record()
	}
	switch has {
	case nil:
		return Found{packed: in}
	case noGrants.grants:
		return Found{noGrants, in}
	case unlimitedGrants.grants:
		return Found{unlimitedGrants, in}
	case blockGrants.grants:
		return Found{blockGrants, in}
	default:
		return Found{clientDetails: &clientDetails{grants: has}}
	}
}

// packGrants returns the grants of a client, or its one limit. A packed limit includes the properties.
func (r *Registry) packGrants(c *rules.Client, of properties) (*clientGrants, packedLimit) {
	switch {
	case len(c.Rules) > 0 || len(c.Limits) > 1:
		for i := range c.Rules { // withDefaults has copied them
			r := &c.Rules[i]
			r.ID, r.Limits = strings.Clone(r.ID), cloneLimits(r.Limits)
		}
	case c.Unlimited:
		return unlimitedGrants.grants, r.shapes.packProperties(unlimitedGrants, of)
	case c.Block:
		return blockGrants.grants, r.shapes.packProperties(blockGrants, of)
	case len(c.Limits) == 0:
		return noGrants.grants, r.shapes.packProperties(noGrants, of)
	default:
		if limit, ok := r.shapes.pack(c.Limits[0], of); ok {
			return nil, limit
		}
	}
	return &clientGrants{cloneLimits(c.Limits), c.Rules, c.Unlimited, c.Block}, packedLimit{}
}

func cloneLimits(list []rules.Limit) []rules.Limit {
	cloned := append([]rules.Limit(nil), list...)
	for i := range cloned {
		cloned[i].Name = unique.Make(cloned[i].Name).Value() // few are different
	}
	return cloned
}
