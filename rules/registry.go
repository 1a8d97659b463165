package rules

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unique"

	"github.com/headgate/headgate"
)

// A Registry knows clients by the values of their attributes. It is safe for concurrent use; looking a client up takes no
// lock and allocates nothing. It is made for millions: a client that is known by its id and has one limit takes about 50 bytes
// if many have the same limit, and 170 if none has.
//
// It keeps no values, but keyed hashes of them of 128 bits: that two values have the same will not happen, and nobody can bring
// it about. A decision goes by one half of it, for which one look into memory is enough, as counters in memory do: a stranger is
// taken for one of a million clients once in 10^12 times. Where strangers may not pass it goes by the whole.
type Registry struct {
	seeds  [2]maphash.Seed
	values roster // by the values of attributes
	ids    roster // by id, of those who are not the user of their id
	count  atomic.Int64

	kinds kinds // by number, 1 and up

	mu      sync.Mutex // of those who change it
	shared  map[kind]*shared
	numbers []uint16 // of kinds, that nobody has any more
	ledger  ledger
	hidden  *era // that in which changes are hidden; nil if they are not
	last    *era // the last in which they were
}

// registered is what is kept of a client, or of many who are the same but for their ids. It never changes. What a decision
// reads comes first.
type registered struct {
	one  [1]Limit     // all that it has, unless more says otherwise
	more *particulars // nil if there is nothing to say
	page *page        // where it stands; nil if it is of a kind
	sum  sum          // of its id, if it is plain and of no kind
	// number is that of its kind, if it is of one.
	number uint16
}

// particulars are what not all clients have.
type particulars struct {
	id          string   // empty if it is plain: the user of its id, of whom nothing else is said
	has         *several // nil if it has one limit
	description string
	attributes  []Test
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
	nothing    = &particulars{has: &several{}}
	everything = &particulars{has: &several{unlimited: true}}
	blocked    = &particulars{has: &several{block: true}}
)

// A kind is what plain clients can have in common.
type kind struct {
	limit Limit
	more  *particulars
}

// shared is a kind of clients, and how many there are.
type shared struct {
	registered

	count int
}

// maxKinds is how many kinds are looked for. Where there are more, clients have no more in common.
const maxKinds = 4096

// plain tells whether the client is the user of its id, and nothing else is said of it.
func (c *registered) plain() bool { return c.more == nil || c.more.id == "" }

// under returns what a client has under a rule.
func (c *registered) under(rule string) (limits []Limit, unlimited, block bool) {
	if c.more == nil || c.more.has == nil {
		return c.one[:], false, false
	}
	m := c.more.has
	for i := range m.rules {
		if r := &m.rules[i]; r.ID == rule {
			return r.Limits, r.Unlimited, r.Block
		}
	}
	return m.limits, m.unlimited, m.block
}

// idOf returns the id of a client that a value has led to.
func (c *registered) idOf(value string) string {
	if c.plain() {
		return value
	}
	return c.more.id
}

// A member is a client of a registry: nobody, if there is nothing of him.
type member struct {
	*registered

	id string
}

func (m member) nobody() bool { return m.registered == nil }

// attributes are those that name the client; none if it is the user of its id.
func (m member) attributes() []Test {
	if m.plain() {
		return nil
	}
	return m.more.attributes
}

// named tells whether the value of an attribute names the client.
func (m member) named(a headgate.Attribute, value string) bool {
	list := m.attributes()
	if list == nil {
		return a == byUser && m.id == value
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
func (m member) itself() bool { return m.named(byUser, m.id) }

// each calls do for all values that name the client, until it is false.
func (m member) each(do func(a headgate.Attribute, value string) bool) {
	list := m.attributes()
	if list == nil {
		do(byUser, m.id)
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
	made := &Client{ID: m.id, Attributes: m.attributes()}
	if made.Attributes == nil {
		made.Attributes = []Test{{byUser, []string{m.id}}}
	}
	if m.more != nil {
		made.Description = m.more.description
	}
	if m.more == nil || m.more.has == nil {
		made.Limits = m.one[:]
	} else {
		has := m.more.has
		made.Limits, made.Rules, made.Unlimited, made.Block = has.limits, has.rules, has.unlimited, has.block
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
	r := &Registry{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, shared: map[kind]*shared{}}
	r.values.kinds = &r.kinds
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
		made := keep(c.normal())
		if r.unclaimed(made, member{}, here, p, true) {
			r.store(made, member{})
		}
	}
	return r
}

// keep returns a client as it is kept, with texts of its own: those given may be parts of a file.
func keep(c *Client) member {
	made := member{registered: &registered{}, id: c.ID}
	var has *several
	switch {
	case len(c.Rules) > 0 || len(c.Limits) > 1:
		for i := range c.Rules { // normal has copied them
			r := &c.Rules[i]
			r.ID, r.Limits = strings.Clone(r.ID), cloneLimits(r.Limits)
		}
		has = &several{cloneLimits(c.Limits), c.Rules, c.Unlimited, c.Block}
	case c.Unlimited:
		made.more = everything
	case c.Block:
		made.more = blocked
	case len(c.Limits) == 0:
		made.more = nothing
	default:
		made.one = [1]Limit(cloneLimits(c.Limits))
	}
	named := len(c.Attributes) == 1 && c.Attributes[0].Attribute == byUser && slices.Equal(c.Attributes[0].Values, []string{c.ID})
	if named && c.Description == "" && has == nil {
		return made // plain
	}
	if has == nil && made.more != nil {
		has = made.more.has
	}
	made.id = strings.Clone(c.ID)
	made.more = &particulars{id: made.id, has: has, description: strings.Clone(c.Description), attributes: c.Attributes}
	for i := range c.Attributes { // normal has copied them
		t := &c.Attributes[i]
		t.Attribute.Name = strings.Clone(t.Attribute.Name)
		for j, value := range t.Values {
			t.Values[j] = strings.Clone(value)
		}
	}
	return made
}

func cloneLimits(list []Limit) []Limit {
	made := append([]Limit(nil), list...)
	for i := range made {
		made[i].Name = unique.Make(made[i].Name).Value() // few are different
	}
	return made
}

// unclaimed tells whether no other client than old has one of the client's values, and says which if one does.
func (r *Registry) unclaimed(c, old member, at *place, p *problems, one bool) bool {
	free := true
	c.each(func(a headgate.Attribute, value string) bool {
		other := r.find(a, value)
		if other != nil && (old.nobody() || other.idOf(value) != old.id) {
			p.add(at.field("attributes").field(a.String()), Quote(value),
				"a value of one client only: it names "+Quote(other.idOf(value))+" already")
			free = false
		}
		return free || !one
	})
	return free
}

// find returns the client whose attribute has the value, nil if there is none.
func (r *Registry) find(a headgate.Attribute, value string) *registered {
	return r.values.find(r.sum(a, value))
}

// guess is find by half of what is known of the value.
func (r *Registry) guess(a headgate.Attribute, value string) *registered {
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
		if c := in.find(sum); c != nil && c.idOf(id) == id {
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
	made := keep(c.normal())
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.byID(made.id)
	if !old.nobody() && !replace {
		p.add(at.field("id"), Quote(c.ID), "a client that is not registered yet")
		return p.err()
	}
	if !r.unclaimed(made, old, at, &p, false) {
		return p.err()
	}
	r.store(made, old)
	return nil
}

// store writes a client down, in the place of an old one if there is one.
func (r *Registry) store(c, old member) {
	r.seat(member{r.write(c), c.id}, old)
	if old.nobody() {
		r.count.Add(1)
	} else {
		r.strike(old.registered)
	}
	r.tidy()
}

// write returns what is kept of a client: something that others have too, if it can be.
func (r *Registry) write(c member) *registered {
	if !c.plain() {
		return r.ledger.write(c.registered)
	}
	as := kind{c.one[0], c.more}
	of := r.shared[as]
	switch {
	case of != nil:
	case len(r.shared) < maxKinds:
		of = &shared{registered: *c.registered}
		of.number = r.newNumber()
		r.shared[as] = of
		r.kinds[of.number].Store(&of.registered)
	default:
		c.sum = r.sum(byUser, c.id)
		return r.ledger.write(c.registered)
	}
	of.count++
	return &of.registered
}

// strike strikes out a client that is no longer found.
func (r *Registry) strike(c *registered) {
	if c.page != nil {
		r.ledger.strike(c)
		return
	}
	as := kind{c.one[0], c.more}
	of := r.shared[as]
	if of.count--; of.count == 0 {
		delete(r.shared, as)
		r.numbers = append(r.numbers, of.number)
	}
}

// newNumber returns the number of another kind.
func (r *Registry) newNumber() uint16 {
	last := len(r.numbers) - 1
	if last < 0 {
		return uint16(len(r.shared) + 1)
	}
	number := r.numbers[last]
	r.numbers = r.numbers[:last]
	return number
}

// seat has a client found where an old one was, if there was one. Under the values and the id that both have it is found all
// the time.
func (r *Registry) seat(c, old member) {
	sum := r.sum(byUser, c.id)
	was, is := !old.nobody() && !old.itself(), !c.itself()
	if is && was {
		r.ids.replace(sum, c.registered)
	} else if is {
		r.ids.add(sum, c.registered)
	}
	r.withdraw(old, c)
	c.each(func(a headgate.Attribute, value string) bool {
		if !old.nobody() && old.named(a, value) {
			r.values.replace(r.note(a, value), c.registered)
		} else {
			r.values.add(r.note(a, value), c.registered)
		}
		return true
	})
	if was && !is {
		r.ids.remove(sum)
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

// tidy moves the clients that are left on worn pages to another.
func (r *Registry) tidy() {
	for worn := r.ledger.turn(); worn != nil; worn = r.ledger.turn() {
		for i := range worn.clients {
			left := &worn.clients[i]
			switch {
			case !left.plain():
				if r.byID(left.more.id).registered != left {
					continue
				}
				r.seat(member{r.ledger.write(left), left.more.id}, member{left, left.more.id})
			case r.values.find(left.sum) == left:
				r.values.replace(left.sum, r.ledger.write(left))
			default:
				continue
			}
			r.ledger.strike(left)
		}
	}
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
	r.strike(c.registered)
	r.tidy()
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
	if c == nil {
		return nil, false
	}
	return member{c, c.idOf(value)}.client(), true
}

// Len returns how many clients are registered.
func (r *Registry) Len() int { return int(r.count.Load()) }
