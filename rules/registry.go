package rules

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"unique"

	"github.com/headgate/headgate"
)

// A Registry knows clients by the values of their attributes. It is safe for concurrent use; looking a client up takes no
// lock and allocates nothing. It is made for millions: a client with one limit that is known by its id takes about 160 bytes.
type Registry struct {
	seed   maphash.Seed
	ids    roster // by id
	values roster // by the values of attributes

	mu sync.Mutex // of those who change it
}

// registered is a client as it is kept. It never changes.
type registered struct {
	id   string
	has  grant
	more *particulars // nil if it is the user of its id, and nothing is said of it
}

// particulars are what few clients have.
type particulars struct {
	description string
	attributes  []Test
}

// named tells whether the value of an attribute names the client.
func (c *registered) named(a headgate.Attribute, value string) bool {
	if c.more == nil {
		return a.Kind == headgate.AttrUser && c.id == value
	}
	for i := range c.more.attributes {
		if t := &c.more.attributes[i]; t.Attribute == a {
			for _, own := range t.Values {
				if own == value {
					return true
				}
			}
		}
	}
	return false
}

// each calls do for all values that name the client, until it is false.
func (c *registered) each(do func(a headgate.Attribute, value string) bool) {
	if c.more == nil {
		do(headgate.Attribute{Kind: headgate.AttrUser}, c.id)
		return
	}
	for _, t := range c.more.attributes {
		for _, value := range t.Values {
			if !do(t.Attribute, value) {
				return
			}
		}
	}
}

// client returns it as it was given, with its defaults filled in.
func (c *registered) client() *Client {
	made := &Client{ID: c.id, Attributes: []Test{{headgate.Attribute{Kind: headgate.AttrUser}, []string{c.id}}}}
	if m := c.has.more; m != nil {
		made.Limits, made.Rules, made.Unlimited, made.Block = m.limits, m.rules, m.unlimited, m.block
	} else {
		made.Limits = c.has.one[:]
	}
	if c.more != nil {
		made.Description, made.Attributes = c.more.description, c.more.attributes
	}
	return made
}

// NewRegistry returns a registry with these clients. The error is an *Error.
func NewRegistry(clients ...Client) (*Registry, error) {
	var p problems
	r := newRegistry(clients, &place{name: "clients"}, &p)
	if err := p.err(); err != nil {
		return nil, err
	}
	return r, nil
}

// newRegistry returns a registry with the clients that are right, and says what is wrong with the others.
func newRegistry(clients []Client, at *place, p *problems) *Registry {
	r := &Registry{seed: maphash.MakeSeed()}
	r.ids.reserve(len(clients))
	r.values.reserve(len(clients))
	for i := range clients {
		c := &clients[i]
		here := at.element(i)
		before := len(p.list) + p.more
		c.validate(here, p)
		if r.byID(c.ID) != nil {
			p.add(here.field("id"), Quote(c.ID), "an id that no other client has")
		}
		if len(p.list)+p.more > before {
			continue
		}
		made := keep(c.normal())
		if r.unclaimed(made, nil, here, p, true) {
			r.store(made, nil)
		}
	}
	return r
}

// keep returns a client as it is kept, with texts of its own: those given may be parts of a file.
func keep(c *Client) *registered {
	made := &registered{id: strings.Clone(c.ID), has: grantOf(c)}
	byID := headgate.Attribute{Kind: headgate.AttrUser}
	plain := len(c.Attributes) == 1 && c.Attributes[0].Attribute == byID && len(c.Attributes[0].Values) == 1 && c.Attributes[0].Values[0] == c.ID
	if plain && c.Description == "" {
		return made
	}
	made.more = &particulars{description: strings.Clone(c.Description), attributes: c.Attributes}
	for i := range c.Attributes { // normal has copied them
		t := &c.Attributes[i]
		t.Attribute.Name = strings.Clone(t.Attribute.Name)
		for j, value := range t.Values {
			t.Values[j] = strings.Clone(value)
		}
	}
	return made
}

// unclaimed tells whether no other client than old has one of the client's values, and says which if one does.
func (r *Registry) unclaimed(c, old *registered, at *place, p *problems, one bool) bool {
	free := true
	c.each(func(a headgate.Attribute, value string) bool {
		if other := r.find(a, value); other != nil && other != old {
			p.add(at.field("attributes").field(a.String()), Quote(value),
				"a value of one client only: it names "+Quote(other.id)+" already")
			free = false
		}
		return free || !one
	})
	return free
}

// find returns the client whose attribute has the value, nil if there is none.
func (r *Registry) find(a headgate.Attribute, value string) *registered {
	return r.values.find(r.hash(a, value), func(c *registered) bool { return c.named(a, value) })
}

// hash is never 0.
func (r *Registry) hash(a headgate.Attribute, value string) uint32 {
	return uint32(maphash.String(r.seed, value)>>32) ^ uint32(a.Kind)*0x9e3779b1 | 1
}

func (r *Registry) hashID(id string) uint32 { return uint32(maphash.String(r.seed, id)>>32) | 1 }

func (r *Registry) byID(id string) *registered {
	return r.ids.find(r.hashID(id), func(c *registered) bool { return c.id == id })
}

// Add registers a client. One that is registered already is an error, as is one that is wrong; Put replaces it. The error
// is an *Error.
func (r *Registry) Add(c Client) error { return r.put(c, false) }

// Put registers a client, in place of the one with the same id if there is one. The error is an *Error.
func (r *Registry) Put(c Client) error { return r.put(c, true) }

func (r *Registry) put(c Client, replace bool) error {
	var p problems
	at := &place{name: "client"}
	c.validate(at, &p)
	if err := p.err(); err != nil {
		return err
	}
	normal := c.normal()
	r.mu.Lock()
	defer r.mu.Unlock()
	made := keep(normal)
	old := r.byID(made.id)
	if old != nil && !replace {
		p.add(at.field("id"), Quote(c.ID), "a client that is not registered yet")
		return p.err()
	}
	if !r.unclaimed(made, old, at, &p, false) {
		return p.err()
	}
	r.store(made, old)
	return nil
}

// store puts a client in the place of an old one, if there is one. Under the values that both have it is found all the time.
func (r *Registry) store(c, old *registered) {
	r.withdraw(old, c)
	c.each(func(a headgate.Attribute, value string) bool {
		hash := r.hash(a, value)
		if old != nil && old.named(a, value) {
			r.values.replace(hash, old, c)
		} else {
			r.values.add(hash, c)
		}
		return true
	})
	if old != nil {
		r.ids.replace(r.hashID(c.id), old, c)
	} else {
		r.ids.add(r.hashID(c.id), c)
	}
}

// withdraw removes the values of a client that the one in its place, if any, does not have.
func (r *Registry) withdraw(c, kept *registered) {
	if c == nil {
		return
	}
	c.each(func(a headgate.Attribute, value string) bool {
		if kept == nil || !kept.named(a, value) {
			r.values.remove(r.hash(a, value), c)
		}
		return true
	})
}

// Remove forgets a client and returns it. It is false if there is none of that id.
func (r *Registry) Remove(id string) (Client, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.byID(id)
	if c == nil {
		return Client{}, false
	}
	r.withdraw(c, nil)
	r.ids.remove(r.hashID(id), c)
	return *c.client(), true
}

// Get returns the client of that id, with its defaults filled in. It is read only.
func (r *Registry) Get(id string) (*Client, bool) {
	c := r.byID(id)
	if c == nil {
		return nil, false
	}
	return c.client(), true
}

// Lookup returns the client that a value of an attribute names, in whatever form it is written. It is read only.
func (r *Registry) Lookup(a headgate.Attribute, value string) (*Client, bool) {
	c := r.find(a, usual(a.Kind, value))
	if c == nil {
		return nil, false
	}
	return c.client(), true
}

// Len returns how many clients are registered.
func (r *Registry) Len() int { return r.ids.len() }

// A grant is what a client has of its own: mostly one limit, under all rules.
type grant struct {
	one  [1]Limit // all there is, if more is nil
	more *several
}

type several struct {
	limits    []Limit
	rules     []ClientRule
	unlimited bool
	block     bool
}

// Many clients have nothing but this.
var (
	nothing    = &several{}
	everything = &several{unlimited: true}
	blocked    = &several{block: true}
)

// grantOf returns what a client has.
func grantOf(c *Client) grant {
	if len(c.Rules) == 0 {
		switch {
		case c.Unlimited:
			return grant{more: everything}
		case c.Block:
			return grant{more: blocked}
		case len(c.Limits) == 0:
			return grant{more: nothing}
		case len(c.Limits) == 1:
			return grant{one: [1]Limit(cloneLimits(c.Limits))}
		}
	}
	for i := range c.Rules { // normal has copied them
		r := &c.Rules[i]
		r.ID, r.Limits = strings.Clone(r.ID), cloneLimits(r.Limits)
	}
	return grant{more: &several{cloneLimits(c.Limits), c.Rules, c.Unlimited, c.Block}}
}

// under returns what is granted under a rule.
func (g *grant) under(rule string) (limits []Limit, unlimited, block bool) {
	m := g.more
	if m == nil {
		return g.one[:], false, false
	}
	for i := range m.rules {
		if r := &m.rules[i]; r.ID == rule {
			return r.Limits, r.Unlimited, r.Block
		}
	}
	return m.limits, m.unlimited, m.block
}

func cloneLimits(list []Limit) []Limit {
	made := append([]Limit(nil), list...)
	for i := range made {
		made[i].Name = unique.Make(made[i].Name).Value() // few are different
	}
	return made
}

// A roster is a table of clients by a hash, with linear probing. Reading takes no lock; those who change it take turns.
type roster struct {
	seats atomic.Pointer[seats]
	count atomic.Int64
	used  int // seats that are taken, or were
}

// seats have hashes beside clients, so that a search looks at few others. A hash of 0 ends it; where there is a hash and
// nobody, there was somebody.
type seats []struct {
	hash   atomic.Uint32
	client atomic.Pointer[registered]
}

// begin returns the place at which the search for a hash begins, next the one after.
func (t seats) begin(hash uint32) int { return int(uint64(hash) * uint64(len(t)) >> 32) }

func (t seats) next(place int) int {
	if place++; place == len(t) {
		return 0
	}
	return place
}

// add takes the first free place. The client is there before the hash that leads to it.
func (t seats) add(hash uint32, c *registered) {
	place := t.begin(hash)
	for t[place].hash.Load() != 0 {
		place = t.next(place)
	}
	t[place].client.Store(c)
	t[place].hash.Store(hash)
}

// place returns where a client is.
func (t seats) place(hash uint32, c *registered) int {
	place := t.begin(hash)
	for t[place].hash.Load() != hash || t[place].client.Load() != c {
		place = t.next(place)
	}
	return place
}

func (r *roster) len() int { return int(r.count.Load()) }

// find returns the client of that hash that is the right one, nil if there is none.
func (r *roster) find(hash uint32, right func(*registered) bool) *registered {
	found := r.seats.Load()
	if found == nil {
		return nil
	}
	t := *found
	for place := t.begin(hash); ; place = t.next(place) {
		switch t[place].hash.Load() {
		case 0:
			return nil
		case hash:
			if c := t[place].client.Load(); c != nil && right(c) {
				return c
			}
		}
	}
}

// add adds a client that is not there under this hash.
func (r *roster) add(hash uint32, c *registered) {
	r.reserve(1)
	r.seats.Load().add(hash, c)
	r.used++
	r.count.Add(1)
}

// replace puts a client in the place of one that is there.
func (r *roster) replace(hash uint32, old, c *registered) {
	t := *r.seats.Load()
	t[t.place(hash, old)].client.Store(c)
}

// remove removes a client that is there. Its place is free again when the seats are made anew.
func (r *roster) remove(hash uint32, c *registered) {
	r.replace(hash, c, nil)
	r.count.Add(-1)
}

// reserve makes room for as many more. The seats are made anew when 7 of 8 are taken, so that 3 of 4 are.
func (r *roster) reserve(more int) {
	old := r.seats.Load()
	if old != nil && (r.used+more)*8 <= len(*old)*7 {
		return
	}
	made := make(seats, max(16, (r.len()+more)*4/3))
	r.used = r.len()
	if old != nil {
		for place := range *old {
			if c := (*old)[place].client.Load(); c != nil {
				made.add((*old)[place].hash.Load(), c)
			}
		}
	}
	r.seats.Store(&made)
}
