package rules

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/headgate/headgate"
)

// A Registry knows clients by the values of their attributes. It is safe for concurrent use; looking a client up takes no
// lock and allocates nothing. It is made for millions: a client that is known by its id and has one limit takes 30 to 40
// bytes, whether others have the same limit or not; 72 while the table grows.
//
// It keeps no values, but keyed hashes of them of 128 bits: that two values have the same will not happen, and nobody can bring
// it about. A decision goes by one half of it, for which one look into memory is enough, as counters in memory do: a stranger is
// taken for one of a million clients once in 10^13 times. Where strangers may not pass it goes by the whole, and if two clients
// have the same half all decisions do: no client is ever taken for another.
type Registry struct {
	seeds  [2]maphash.Seed
	values roster // by the values of attributes
	ids    roster // by id, of those who are not the user of their id
	shapes shapes
	count  atomic.Int64

	mu     sync.Mutex        // of those who change it
	hidden *era              // that in which changes are hidden; nil if they are not
	last   weak.Pointer[era] // the last in which they were, as long as somebody is in one of them
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
	r := &Registry{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	r.values.shapes, r.ids.shapes = &r.shapes, &r.shapes
	r.values.reserve(len(clients))
	for i := range clients {
		c := &clients[i]
		here := at.element(i)
		before := len(p.list) + p.more
		c.validate(here, p)
		if !r.byID(c.ID).nobody() {
			p.add(here.field("id"), Quote(c.ID), "an id that no other client has")
		}
		if len(p.list)+p.more > before {
			continue
		}
		made := r.keep(c.normal())
		if r.unclaimed(made, member{}, here, p, true) {
			r.store(made, member{})
		}
	}
	return r
}

// unclaimed tells whether no other client than old has one of the client's values, and says which if one does.
func (r *Registry) unclaimed(c, old member, at *place, p *problems, one bool) bool {
	free := true
	c.each(func(a headgate.Attribute, value string) bool {
		other := r.find(a, value)
		if !other.nobody() && (old.nobody() || other.idOf(value) != old.name) {
			p.add(at.field("attributes").field(a.String()), Quote(value),
				"a value of one client only: it names "+Quote(other.idOf(value))+" already")
			free = false
		}
		return free || !one
	})
	return free
}

// find returns the client whose attribute has the value, nobody if there is none.
func (r *Registry) find(a headgate.Attribute, value string) found {
	return r.values.find(r.sum(a, value))
}

// guess is find by half of what is known of the value.
func (r *Registry) guess(a headgate.Attribute, value string) found {
	return r.values.guess(r.half(0, a, value))
}

func (r *Registry) sum(a headgate.Attribute, value string) sum {
	return sum{r.half(0, a, value), r.half(1, a, value)}
}

// half returns one half of the sum of a value.
func (r *Registry) half(which int, a headgate.Attribute, value string) uint64 {
	made := maphash.String(r.seeds[which], value) ^ uint64(a.Kind)*0x9e3779b97f4a7c15
	if a.Name != "" {
		made ^= bits.RotateLeft64(maphash.String(r.seeds[which], a.Name), 32)
	}
	return made
}

// byID returns the client of that id, nobody if there is none.
func (r *Registry) byID(id string) member {
	sum := r.sum(byUser, id)
	for _, in := range []*roster{&r.values, &r.ids} {
		if c := in.find(sum); !c.nobody() && c.idOf(id) == id {
			return member{c, id}
		}
	}
	return member{}
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
	old := r.byID(c.ID)
	if !old.nobody() && !replace {
		p.add(at.field("id"), Quote(c.ID), "a client that is not registered yet")
		return p.err()
	}
	made := r.keep(normal)
	if !r.unclaimed(made, old, at, &p, false) {
		return p.err()
	}
	r.store(made, old)
	return nil
}

// store has a client found where an old one was, if there was one. Under the values and the id that both have it is found all
// the time.
func (r *Registry) store(c, old member) {
	sum := r.sum(byUser, c.name)
	was, is := !old.nobody() && !old.itself(), !c.itself()
	if is && was {
		r.ids.replace(sum, c.found)
	} else if is {
		r.ids.add(sum, c.found)
	}
	r.withdraw(old, c)
	c.each(func(a headgate.Attribute, value string) bool {
		if !old.nobody() && old.named(a, value) {
			r.values.replace(r.note(a, value), c.found)
		} else {
			r.values.add(r.note(a, value), c.found)
		}
		return true
	})
	if was && !is {
		r.ids.remove(sum)
	}
	if old.nobody() {
		r.count.Add(1)
	}
}

// withdraw removes the values of a client that the one in its place, if any, does not have.
func (r *Registry) withdraw(c, kept member) {
	if c.nobody() {
		return
	}
	c.each(func(a headgate.Attribute, value string) bool {
		if kept.nobody() || !kept.named(a, value) {
			r.values.remove(r.note(a, value))
		}
		return true
	})
}

// Remove forgets a client and returns it. It is false if there is none of that id.
func (r *Registry) Remove(id string) (Client, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.byID(id)
	if c.nobody() {
		return Client{}, false
	}
	gone := *c.client()
	r.withdraw(c, member{})
	if !c.itself() {
		r.ids.remove(r.sum(byUser, id))
	}
	r.count.Add(-1)
	return gone, true
}

// Get returns the client of that id, with its defaults filled in. It is read only.
func (r *Registry) Get(id string) (*Client, bool) {
	c := r.byID(id)
	if c.nobody() {
		return nil, false
	}
	return c.client(), true
}

// Lookup returns the client that a value of an attribute names, in whatever form it is written. It is read only.
func (r *Registry) Lookup(a headgate.Attribute, value string) (*Client, bool) {
	value = usual(a.Kind, value)
	c := r.find(a, value)
	if c.nobody() {
		return nil, false
	}
	return member{c, c.idOf(value)}.client(), true
}

// Len returns how many clients are registered.
func (r *Registry) Len() int { return int(r.count.Load()) }
