package rules

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
)

// A Registry knows clients by the values of their attributes. It is safe for concurrent use; looking a client up takes no
// lock and allocates nothing.
type Registry struct {
	seed   maphash.Seed
	shards []atomic.Pointer[map[string]*registered] // by value; what they point to never changes
	count  atomic.Int64

	mu   sync.Mutex // of those who change it
	byID map[string]*Client
}

// registered is a client under one of the values that name it.
type registered struct {
	client    *Client
	attribute headgate.Attribute
	next      *registered // another under the same value of another attribute
}

// registryShards is in how many parts a registry is kept. Changing a client copies the parts it is in.
const registryShards = 4096

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
	r := &Registry{
		seed:   maphash.MakeSeed(),
		shards: make([]atomic.Pointer[map[string]*registered], registryShards),
		byID:   make(map[string]*Client, len(clients)),
	}
	parts := map[uint64]map[string]*registered{}
	for i := range clients {
		c := &clients[i]
		here := at.element(i)
		before := len(p.list) + p.more
		c.validate(here, p)
		if _, twice := r.byID[c.ID]; twice {
			p.add(here.field("id"), Quote(c.ID), "an id that no other client has")
		}
		if len(p.list)+p.more > before {
			continue
		}
		made := c.normal()
		if other, test, value := r.claimed(made, parts); other != "" {
			p.add(here.field("attributes").field(test.String()), Quote(value),
				"a value of one client only: it names "+Quote(other)+" already")
			continue
		}
		r.byID[made.ID] = made
		for _, t := range made.Attributes {
			for _, value := range t.Values {
				n := r.shard(value)
				if parts[n] == nil {
					parts[n] = map[string]*registered{}
				}
				parts[n][value] = &registered{client: made, attribute: t.Attribute, next: parts[n][value]}
			}
		}
	}
	for n, part := range parts {
		r.shards[n].Store(&part)
	}
	r.count.Store(int64(len(r.byID)))
	return r
}

// claimed returns who has one of the client's values already.
func (r *Registry) claimed(c *Client, parts map[uint64]map[string]*registered) (id string, a headgate.Attribute, value string) {
	for _, t := range c.Attributes {
		for _, value := range t.Values {
			if other := parts[r.shard(value)][value].of(t.Attribute); other != nil {
				return other.client.ID, t.Attribute, value
			}
		}
	}
	return "", headgate.Attribute{}, ""
}

func (r *Registry) shard(value string) uint64 { return maphash.String(r.seed, value) % registryShards }

// of returns the entry of an attribute.
func (e *registered) of(a headgate.Attribute) *registered {
	for e != nil && e.attribute != a {
		e = e.next
	}
	return e
}

// find returns the client whose attribute has the value, nil if there is none.
func (r *Registry) find(a headgate.Attribute, value string) *registered {
	part := r.shards[r.shard(value)].Load()
	if part == nil {
		return nil
	}
	return (*part)[value].of(a)
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
	made := c.normal()
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.byID[made.ID]
	if old != nil && !replace {
		p.add(at.field("id"), Quote(c.ID), "a client that is not registered yet")
		return p.err()
	}
	for _, t := range made.Attributes {
		for _, value := range t.Values {
			if other := r.find(t.Attribute, value); other != nil && other.client != old {
				p.add(at.field("attributes").field(t.Attribute.String()), Quote(value),
					"a value of one client only: it names "+Quote(other.client.ID)+" already")
			}
		}
	}
	if err := p.err(); err != nil {
		return err
	}
	if old != nil {
		r.withdraw(old, made)
	}
	for _, t := range made.Attributes {
		for _, value := range t.Values {
			r.change(value, t.Attribute, made)
		}
	}
	r.byID[made.ID] = made
	r.count.Store(int64(len(r.byID)))
	return nil
}

// Remove forgets a client and returns it. It is false if there is none of that id.
func (r *Registry) Remove(id string) (Client, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.byID[id]
	if c == nil {
		return Client{}, false
	}
	delete(r.byID, id)
	r.withdraw(c, nil)
	r.count.Store(int64(len(r.byID)))
	return *c, true
}

// Get returns the client of that id, with its defaults filled in. It is read only.
func (r *Registry) Get(id string) (*Client, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.byID[id]
	return c, ok
}

// Len returns how many clients are registered.
func (r *Registry) Len() int { return int(r.count.Load()) }

// withdraw removes the values of a client that the one in its place, if any, does not have.
func (r *Registry) withdraw(c, kept *Client) {
	for _, t := range c.Attributes {
		for _, value := range t.Values {
			if kept == nil || !kept.named(t.Attribute, value) {
				r.change(value, t.Attribute, nil)
			}
		}
	}
}

// change puts a client under a value, or removes whoever is there.
func (r *Registry) change(value string, a headgate.Attribute, c *Client) {
	shard := &r.shards[r.shard(value)]
	part := map[string]*registered{}
	if old := shard.Load(); old != nil {
		part = maps.Clone(*old)
	}
	var chain *registered
	for e := part[value]; e != nil; e = e.next {
		if e.attribute != a {
			chain = &registered{client: e.client, attribute: e.attribute, next: chain}
		}
	}
	if c != nil {
		chain = &registered{client: c, attribute: a, next: chain}
	}
	if chain == nil {
		delete(part, value)
	} else {
		part[value] = chain
	}
	shard.Store(&part)
}

// named tells whether the value of an attribute names the client.
func (c *Client) named(a headgate.Attribute, value string) bool {
	return slices.ContainsFunc(c.Attributes, func(t Test) bool {
		return t.Attribute == a && slices.Contains(t.Values, value)
	})
}
