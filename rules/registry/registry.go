package registry

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/internal/pattern"
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
	hiding     *Epoch              // the epoch in which changes are hidden; nil if they are not
	lastHiding weak.Pointer[Epoch] // the last such epoch, as long as one is in use
}

// New returns a registry with these clients. The error is a *rules.Error.
func New(clients ...rules.Client) (*Registry, error) {
	if err := rules.ValidateClients(clients); err != nil {
		return nil, err
	}
	r := &Registry{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	r.values.shapes, r.ids.shapes = &r.shapes, &r.shapes
	r.values.reserve(len(clients))
	for i := range clients {
		r.store(r.newRecord(clients[i].WithDefaults()), registeredClient{})
	}
	return r, nil
}

// checkValues returns an error if a client other than old has one of the client's values.
func (r *Registry) checkValues(c, old registeredClient) error {
	var found rules.Error
	c.eachValue(func(a headgate.Attribute, value string) bool {
		other := r.find(a, value)
		switch {
		case other.Absent() || !old.Absent() && other.ClientID(value) == old.name:
		case len(found.Problems) == rules.MaxProblems:
			found.More++
		default:
			found.Problems = append(found.Problems, rules.Problem{
				Path: "client.attributes." + a.String(), Value: rules.Quote(value),
				Want: rules.WantFreeValue(other.ClientID(value)),
			})
		}
		return true
	})
	if len(found.Problems) == 0 {
		return nil
	}
	return &found
}

// Find returns the client with the value of an attribute, absent if there is none. It compares half of the hash if no
// two clients have the same half, and the whole hash if exact is set.
func (r *Registry) Find(a headgate.Attribute, value string, exact bool) Found {
	c := r.findByHalf(a, value)
	if !c.Absent() && (exact || r.values.hasCollisions()) {
		return r.find(a, value)
	}
	return c
}

// find returns the client with the value of an attribute, absent if there is none.
func (r *Registry) find(a headgate.Attribute, value string) Found {
	return r.values.find(r.hash(a, value))
}

// findByHalf is like find, but compares only half of the hash.
func (r *Registry) findByHalf(a headgate.Attribute, value string) Found {
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
		if c := in.find(sum); !c.Absent() && c.ClientID(id) == id {
			return registeredClient{c, id}
		}
	}
	return registeredClient{}
}

// Add registers a client. The error is a *rules.Error if the client is invalid or registered already; Put replaces it.
func (r *Registry) Add(c rules.Client) error { return r.put(c, false) }

// Put registers a client, or replaces the one with the same id. The error is a *rules.Error.
func (r *Registry) Put(c rules.Client) error { return r.put(c, true) }

func (r *Registry) put(c rules.Client, replace bool) error {
	if err := c.Validate(); err != nil {
		return err
	}
	normal := c.WithDefaults()
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.byID(c.ID)
	if !old.Absent() && !replace {
		return &rules.Error{Problems: []rules.Problem{{
			Path: "client.id", Value: rules.Quote(c.ID), Want: "a client that is not registered yet",
		}}}
	}
	client := r.newRecord(normal)
	if err := r.checkValues(client, old); err != nil {
		return err
	}
	r.store(client, old)
	return nil
}

// store stores a client in place of old, if there is one. Lookups by a value or id that both have find one of them at
// any time.
func (r *Registry) store(c, old registeredClient) {
	sum := r.hash(byUser, c.name)
	hadID, needsID := !old.Absent() && !old.isOwnUser(), !c.isOwnUser()
	if needsID && hadID {
		r.ids.replace(sum, c.Found)
	} else if needsID {
		r.ids.add(sum, c.Found)
	}
	r.withdraw(old, c)
	c.eachValue(func(a headgate.Attribute, value string) bool {
		if !old.Absent() && old.hasValue(a, value) {
			r.values.replace(r.recordPrevious(a, value), c.Found)
		} else {
			r.values.add(r.recordPrevious(a, value), c.Found)
		}
		return true
	})
	if hadID && !needsID {
		r.ids.remove(sum)
	}
	if old.Absent() {
		r.count.Add(1)
	}
}

// withdraw removes the values of a client that its replacement, if any, does not have.
func (r *Registry) withdraw(c, replacement registeredClient) {
	if c.Absent() {
		return
	}
	c.eachValue(func(a headgate.Attribute, value string) bool {
		if replacement.Absent() || !replacement.hasValue(a, value) {
			r.values.remove(r.recordPrevious(a, value))
		}
		return true
	})
}

// Remove removes a client and returns it. It returns false if there is none with that id.
func (r *Registry) Remove(id string) (rules.Client, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.byID(id)
	if c.Absent() {
		return rules.Client{}, false
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
func (r *Registry) Get(id string) (*rules.Client, bool) {
	c := r.byID(id)
	if c.Absent() {
		return nil, false
	}
	return c.toClient(), true
}

// Lookup returns the client that a value of an attribute identifies, in any notation. It is read-only.
func (r *Registry) Lookup(a headgate.Attribute, value string) (*rules.Client, bool) {
	value = pattern.CanonicalValue(a.Kind, value)
	c := r.find(a, value)
	if c.Absent() {
		return nil, false
	}
	return registeredClient{c, c.ClientID(value)}.toClient(), true
}

// Len returns the number of registered clients.
func (r *Registry) Len() int { return int(r.count.Load()) }
