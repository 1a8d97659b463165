package registry

import (
	"slices"
	"strings"
	"unique"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A Client is a registered client. The zero value means that there is no client.
type Client struct {
	*Entry
	count int64 // the Count of Entry.limit, which Entry does not contain
}

// An Entry is the stored form of a client. It never changes. Most clients have one limit and are identified by the
// attribute user, whose value is their id. Such clients need no details, and share an entry if their limits differ only
// in the Count.
type Entry struct {
	common
	details *details // nil if the client is identified by its id as the user, and has at most one limit and no description
}

// common is the part of an entry that is sufficient for most clients.
type common struct {
	limit      rules.Limit // without its Count, if hasLimit is set
	hasLimit   bool
	unlimited  bool
	block      bool
	properties properties
}

// details are the parts of a client that few clients have.
type details struct {
	id          string
	description string
	attributes  []rules.Test
	limits      []rules.Limit // all limits, if there are several
	rules       []rules.ClientRule
}

var userAttribute = headgate.Attribute{Kind: headgate.AttrUser}

// Absent reports whether there is no client.
func (c Client) Absent() bool { return c.Entry == nil }

// OneLimit sets dst to the limit of a client that has the same single limit under all rules. For other clients it
// returns false.
func (c Client) OneLimit(dst *rules.Limit) bool {
	if !c.hasLimit || c.details != nil && len(c.details.rules) > 0 {
		return false
	}
	*dst = c.limit
	dst.Count = c.count
	return true
}

// Grants returns the client's limits under a rule, or reports whether the client is unlimited or blocked under the
// rule. If it returns none of these, the limits of the rule apply. The limits are read-only. If OneLimit returns true
// for the client, call OneLimit instead, because Grants then allocates.
func (c Client) Grants(rule string) (limits []rules.Limit, unlimited, block bool) {
	if c.details != nil {
		for i := range c.details.rules {
			if r := &c.details.rules[i]; r.ID == rule {
				return r.Limits, r.Unlimited, r.Block
			}
		}
	}
	return c.limits(), c.unlimited, c.block
}

// limits returns the client's limits under all rules except those for which it has other limits.
func (c Client) limits() []rules.Limit {
	if c.hasLimit {
		limits := []rules.Limit{c.limit}
		limits[0].Count = c.count
		return limits
	}
	if c.details != nil {
		return c.details.limits
	}
	return nil
}

// Property returns a property of the client, and whether it has the property.
func (e *Entry) Property(name string) (string, bool) { return e.properties.get(name) }

// ClientID returns the id of the client. value is the attribute value by which the client was found.
func (e *Entry) ClientID(value string) string {
	if e.details == nil {
		return value
	}
	return e.details.id
}

// client returns the client with its defaults filled in. value is one of the values that identify it.
func (c Client) client(value string) *rules.Client {
	full := &rules.Client{
		ID: c.ClientID(value), Properties: c.properties.list(),
		Limits: c.limits(), Unlimited: c.unlimited, Block: c.block,
	}
	if c.details == nil {
		full.Attributes = []rules.Test{{Attribute: userAttribute, Values: []string{full.ID}}}
	} else {
		full.Description, full.Attributes, full.Rules = c.details.description, c.details.attributes, c.details.rules
	}
	return full
}

// newClient returns the stored form of a client whose defaults are filled in. It copies texts, because they may be
// substrings of a large file.
func (r *Registry) newClient(c *rules.Client) Client {
	e := Entry{common: common{unlimited: c.Unlimited, block: c.Block, properties: newProperties(c.Properties)}}
	limits, count := cloneLimits(c.Limits), int64(0)
	if len(limits) == 1 {
		e.limit, e.hasLimit = limits[0], true
		e.limit.Count = 0
		count, limits = limits[0].Count, nil
	}
	byID := len(c.Attributes) == 1 && c.Attributes[0].Attribute == userAttribute &&
		slices.Equal(c.Attributes[0].Values, []string{c.ID})
	if byID && c.Description == "" && len(limits) == 0 && len(c.Rules) == 0 {
		return Client{r.share(&e), count}
	}
	e.details = &details{
		id: strings.Clone(c.ID), description: strings.Clone(c.Description), limits: limits,
		attributes: slices.Clone(c.Attributes), rules: slices.Clone(c.Rules),
	}
	for i := range e.details.attributes {
		t := &e.details.attributes[i]
		t.Attribute.Name = strings.Clone(t.Attribute.Name)
		t.Values = slices.Clone(t.Values)
		for j, value := range t.Values {
			t.Values[j] = strings.Clone(value)
		}
	}
	for i := range e.details.rules {
		rule := &e.details.rules[i]
		rule.ID, rule.Limits = strings.Clone(rule.ID), cloneLimits(rule.Limits)
	}
	return Client{&e, count}
}

// maxShared is the maximum number of entries in Registry.shared. Without it, the map would grow with the number of
// clients if they are all different.
const maxShared = 4096

// share returns the shared entry that equals e. If there is none, it shares and returns e.
func (r *Registry) share(e *Entry) *Entry {
	if shared := r.shared[e.common]; shared != nil {
		return shared
	}
	if len(r.shared) < maxShared {
		r.shared[e.common] = e
	}
	return e
}

func cloneLimits(list []rules.Limit) []rules.Limit {
	cloned := slices.Clone(list)
	for i := range cloned {
		cloned[i].Name = unique.Make(cloned[i].Name).Value() // equal names share memory
	}
	return cloned
}
