package rules

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/headgate/headgate"
)

// A Registry finds clients by the values of their attributes. It is safe for concurrent use; a lookup takes no lock and
// allocates nothing. It is made for millions of clients: a client that is known by its id and has one limit takes 30 to
// 40 bytes, whether others have the same limit or not; 72 while the table grows.
//
// It stores keyed 128-bit hashes instead of values; nobody can construct a collision. A decision compares one half of
// the hash, which takes a single memory access, as counters in memory do: an unregistered client is taken for one of a
// million clients once in 10^13 times. Rules that admit only registered clients compare the whole hash, and if two
// clients have the same half, all decisions do: no client is ever taken for another.
type Registry struct {
	seeds  [2]maphash.Seed
	values clientTable // by the values of attributes
	ids    clientTable // by id, of clients that are not the user of their id
	shapes shapeTable
	count  atomic.Int64

	mu         sync.Mutex          // held by writers
	hiding     *epoch              // the epoch in which changes are hidden; nil if they are not
	lastHiding weak.Pointer[epoch] // the last such epoch, as long as one is in use
}

// NewRegistry returns a registry with these clients. The error is an *Error.
func NewRegistry(clients ...Client) (*Registry, error) {
	var p problems
	r := newRegistry(clients, &location{name: "clients"}, &p)
	if err := p.err(); err != nil {
		return nil, err
	}
	return r, nil
}

// newRegistry returns a registry with the valid clients, and reports problems with the others.
func newRegistry(clients []Client, at *location, p *problems) *Registry {
	r := &Registry{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	r.values.shapes, r.ids.shapes = &r.shapes, &r.shapes
	r.values.reserve(len(clients))
	for i := range clients {
		c := &clients[i]
		here := at.element(i)
		before := len(p.list) + p.more
		c.validate(here, p)
		if !r.byID(c.ID).absent() {
			p.add(here.field("id"), Quote(c.ID), "an id that no other client has")
		}
		if len(p.list)+p.more > before {
			continue
		}
		client := r.newRecord(c.withDefaults())
		if r.unclaimed(client, registeredClient{}, here, p, true) {
			r.store(client, registeredClient{})
		}
	}
	return r
}

// unclaimed reports whether no client other than old has one of the client's values, and adds a problem if one does.
func (r *Registry) unclaimed(c, old registeredClient, at *location, p *problems, one bool) bool {
	free := true
	c.eachValue(func(a headgate.Attribute, value string) bool {
		other := r.find(a, value)
		if !other.absent() && (old.absent() || other.clientID(value) != old.name) {
			p.add(at.field("attributes").field(a.String()), Quote(value),
				"a value of one client only: it names "+Quote(other.clientID(value))+" already")
			free = false
		}
		return free || !one
	})
	return free
}

// find returns the client with the value of an attribute, absent if there is none.
func (r *Registry) find(a headgate.Attribute, value string) clientRecord {
	return r.values.find(r.hash(a, value))
}

// findByHalf is like find, but compares only half of the hash.
func (r *Registry) findByHalf(a headgate.Attribute, value string) clientRecord {
	return r.values.findByHalf(r.hashHalf(0, a, value))
}

func (r *Registry) hash(a headgate.Attribute, value string) valueHash {
	return valueHash{r.hashHalf(0, a, value), r.hashHalf(1, a, value)}
}

// hashHalf returns one half of the hash of a value.
func (r *Registry) hashHalf(which int, a headgate.Attribute, value string) uint64 {
	h := maphash.String(r.seeds[which], value) ^ uint64(a.Kind)*0x9e3779b97f4a7c15
	if a.Name != "" {
		h ^= bits.RotateLeft64(maphash.String(r.seeds[which], a.Name), 32)
	}
	return h
}

// byID returns the client with that id, absent if there is none.
func (r *Registry) byID(id string) registeredClient {
	sum := r.hash(byUser, id)
	for _, in := range []*clientTable{&r.values, &r.ids} {
		if c := in.find(sum); !c.absent() && c.clientID(id) == id {
			return registeredClient{c, id}
		}
	}
	return registeredClient{}
}

// Add registers a client. The error is an *Error if the client is invalid or registered already; Put replaces it.
func (r *Registry) Add(c Client) error { return r.put(c, false) }

// Put registers a client, or replaces the one with the same id. The error is an *Error.
func (r *Registry) Put(c Client) error { return r.put(c, true) }

func (r *Registry) put(c Client, replace bool) error {
	var p problems
	at := &location{name: "client"}
	c.validate(at, &p)
	if err := p.err(); err != nil {
		return err
	}
	normal := c.withDefaults()
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.byID(c.ID)
	if !old.absent() && !replace {
		p.add(at.field("id"), Quote(c.ID), "a client that is not registered yet")
		return p.err()
	}
	client := r.newRecord(normal)
	if !r.unclaimed(client, old, at, &p, false) {
		return p.err()
	}
	r.store(client, old)
	return nil
}

// store stores a client in place of old, if there is one. Lookups by a value or id that both have find one of them at
// any time.
func (r *Registry) store(c, old registeredClient) {
	sum := r.hash(byUser, c.name)
	hadID, needsID := !old.absent() && !old.isOwnUser(), !c.isOwnUser()
	if needsID && hadID {
		r.ids.replace(sum, c.clientRecord)
	} else if needsID {
		r.ids.add(sum, c.clientRecord)
	}
	r.withdraw(old, c)
	c.eachValue(func(a headgate.Attribute, value string) bool {
		if !old.absent() && old.hasValue(a, value) {
			r.values.replace(r.recordPrevious(a, value), c.clientRecord)
		} else {
			r.values.add(r.recordPrevious(a, value), c.clientRecord)
		}
		return true
	})
	if hadID && !needsID {
		r.ids.remove(sum)
	}
	if old.absent() {
		r.count.Add(1)
	}
}

// withdraw removes the values of a client that its replacement, if any, does not have.
func (r *Registry) withdraw(c, replacement registeredClient) {
	if c.absent() {
		return
	}
	c.eachValue(func(a headgate.Attribute, value string) bool {
		if replacement.absent() || !replacement.hasValue(a, value) {
			r.values.remove(r.recordPrevious(a, value))
		}
		return true
	})
}

// Remove removes a client and returns it. It returns false if there is none with that id.
func (r *Registry) Remove(id string) (Client, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.byID(id)
	if c.absent() {
		return Client{}, false
	}
	removed := *c.toClient()
	r.withdraw(c, registeredClient{})
	if !c.isOwnUser() {
		r.ids.remove(r.hash(byUser, id))
	}
	r.count.Add(-1)
	return removed, true
}

// Get returns the client with that id and its defaults filled in. It is read-only.
func (r *Registry) Get(id string) (*Client, bool) {
	c := r.byID(id)
	if c.absent() {
		return nil, false
	}
	return c.toClient(), true
}

// Lookup returns the client that a value of an attribute identifies, in any notation. It is read-only.
func (r *Registry) Lookup(a headgate.Attribute, value string) (*Client, bool) {
	value = canonicalValue(a.Kind, value)
	c := r.find(a, value)
	if c.absent() {
		return nil, false
	}
	return registeredClient{c, c.clientID(value)}.toClient(), true
}

// Len returns the number of registered clients.
func (r *Registry) Len() int { return int(r.count.Load()) }
