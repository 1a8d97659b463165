package registry

import (
	"hash/maphash"
	"iter"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/internal/pattern"
)

// A Registry finds clients by the values of their attributes. It is safe for concurrent use; a lookup takes no lock and
// allocates nothing. It can hold millions of clients: a client that is identified by its id and has one limit takes
// about 50 bytes.
//
// A registry stores 128-bit hashes instead of values. The hashes have random keys, so clients cannot construct
// collisions.
type Registry struct {
	seeds  [2]maphash.Seed
	values table // by attribute values
	ids    table // by id; without the clients whose attribute user is their id, which values finds
	shared map[common]*Entry
	count  atomic.Int64 // number of clients

	mu         sync.Mutex          // held by writers
	hiding     *Epoch              // the epoch that hides changes now, or nil
	lastHiding weak.Pointer[Epoch] // the latest epoch that hides changes, as long as it is in use
}

// New returns a registry with these clients. The error is a *rules.Error.
func New(clients ...rules.Client) (*Registry, error) {
	if err := rules.ValidateClients(clients); err != nil {
		return nil, err
	}
	r := &Registry{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, shared: map[common]*Entry{}}
	r.values.reserve(len(clients))
	for i := range clients {
		r.store(clients[i].WithDefaults(), nil)
	}
	return r, nil
}

// Find returns the client with the value of an attribute, or an absent Client if there is none.
func (r *Registry) Find(a headgate.Attribute, value string) Client {
	return r.values.find(r.hash(a, value))
}

// hash returns the hash of a value. It combines the hash of the value with the attribute, so that equal values of two
// attributes have different hashes.
func (r *Registry) hash(a headgate.Attribute, value string) valueHash {
	var h valueHash
	for i, seed := range r.seeds {
		h[i] = maphash.String(seed, value) ^ uint64(a.Kind)*0x9e3779b97f4a7c15
		if a.Name != "" {
			h[i] ^= bits.RotateLeft64(maphash.String(seed, a.Name), 32)
		}
	}
	return h
}

// Get returns the client with an id, with its defaults filled in. The client is read-only.
func (r *Registry) Get(id string) (*rules.Client, bool) {
	hash := r.hash(userAttribute, id)
	for _, t := range []*table{&r.values, &r.ids} {
		if c := t.find(hash); !c.Absent() && c.ClientID(id) == id {
			return c.client(id), true
		}
	}
	return nil, false
}

// Lookup is like Find, but the value may be in any notation that rules accept, such as a host in upper case. It returns
// the whole client, which is read-only.
func (r *Registry) Lookup(a headgate.Attribute, value string) (*rules.Client, bool) {
	value = pattern.CanonicalValue(a.Kind, value)
	if c := r.Find(a, value); !c.Absent() {
		return c.client(value), true
	}
	return nil, false
}

// Len returns the number of registered clients.
func (r *Registry) Len() int { return int(r.count.Load()) }

// Add registers a client. The error is a *rules.Error if the client is invalid or registered already; Put replaces it.
func (r *Registry) Add(c rules.Client) error { return r.put(c, false) }

// Put registers a client, or replaces the one with the same id. The error is a *rules.Error.
func (r *Registry) Put(c rules.Client) error { return r.put(c, true) }

func (r *Registry) put(c rules.Client, replace bool) error {
	if err := c.Validate(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old, registered := r.Get(c.ID)
	if registered && !replace {
		return &rules.Error{Problems: []rules.Problem{{
			Path: "client.id", Value: rules.Quote(c.ID), Want: "a client that is not registered yet",
		}}}
	}
	filled := c.WithDefaults()
	if err := r.checkValues(filled); err != nil {
		return err
	}
	r.store(filled, old)
	return nil
}

// checkValues returns an error if another client has one of the client's values.
func (r *Registry) checkValues(c *rules.Client) error {
	var problems rules.Error
	for a, value := range values(c) {
		other := r.Find(a, value)
		switch {
		case other.Absent() || other.ClientID(value) == c.ID:
		case len(problems.Problems) == rules.MaxProblems:
			problems.More++
		default:
			problems.Problems = append(problems.Problems, rules.Problem{
				Path: "client.attributes." + a.String(), Value: rules.Quote(value),
				Want: rules.WantFreeValue(other.ClientID(value)),
			})
		}
	}
	if len(problems.Problems) == 0 {
		return nil
	}
	return &problems
}

// values returns the attribute values that identify a client with defaults. A nil client has none.
func values(c *rules.Client) iter.Seq2[headgate.Attribute, string] {
	return func(yield func(headgate.Attribute, string) bool) {
		if c == nil {
			return
		}
		for _, t := range c.Attributes {
			for _, value := range t.Values {
				if !yield(t.Attribute, value) {
					return
				}
			}
		}
	}
}

// hasValue reports whether a value is one of those that identify a client. A nil client has none.
func hasValue(c *rules.Client, a headgate.Attribute, value string) bool {
	return c != nil && slices.ContainsFunc(c.Attributes, func(t rules.Test) bool {
		return t.Attribute == a && slices.Contains(t.Values, value)
	})
}

// store replaces the client old by c. It adds c if old is nil, and removes old if c is nil. The defaults of both are
// filled in. Concurrent lookups by a value or id that both clients have always find one of them.
func (r *Registry) store(c, old *rules.Client) {
	if c != nil {
		record := r.newClient(c)
		if !hasValue(c, userAttribute, c.ID) {
			r.ids.set(r.hash(userAttribute, c.ID), record)
		}
		for a, value := range values(c) {
			r.setValue(a, value, record)
		}
	}
	if old == nil {
		r.count.Add(1)
		return
	}
	for a, value := range values(old) {
		if !hasValue(c, a, value) {
			r.setValue(a, value, Client{})
		}
	}
	if !hasValue(old, userAttribute, old.ID) && (c == nil || hasValue(c, userAttribute, c.ID)) {
		r.ids.set(r.hash(userAttribute, old.ID), Client{})
	}
	if c == nil {
		r.count.Add(-1)
	}
}

// setValue sets the client of an attribute value. If changes are hidden, it first records the previous client.
func (r *Registry) setValue(a headgate.Attribute, value string, c Client) {
	hash := r.hash(a, value)
	if r.hiding != nil && r.hiding.before.find(hash).Absent() {
		previous := r.values.find(hash)
		if previous.Absent() {
			previous.Entry = noClient
		}
		r.hiding.before.set(hash, previous)
	}
	r.values.set(hash, c)
}

// Remove removes the client with an id and returns it. It returns false if there is none.
func (r *Registry) Remove(id string) (rules.Client, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.Get(id)
	if !ok {
		return rules.Client{}, false
	}
	r.store(nil, c)
	return *c, true
}
