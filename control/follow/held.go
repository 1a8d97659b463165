package follow

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules"
)

var userAttribute = headgate.Attribute{Kind: headgate.AttrUser}

// held is what a node has of its namespace. One goroutine changes it.
type held struct {
	mark    control.Mark
	rules   map[string]*rules.Rule // read only, as several have them
	clients clients
	overlay overlay
	set     *rules.Set
}

// ErrRefused is wrapped by errors about what was sent whole and cannot be used here.
var ErrRefused = errors.New("rules refused")

func refused(err error) error { return fmt.Errorf("%w: %w", ErrRefused, err) }

// compile makes the rules of a map ready, in the order of their ids.
func compile(byID map[string]*rules.Rule) (*rules.Set, error) {
	var work polite
	ids := slices.AppendSeq(make([]string, 0, len(byID)), maps.Keys(byID))
	compared := 0
	slices.SortFunc(ids, func(a, b string) int {
		if compared++; compared%32 == 0 { // they take next to nothing
			work.done(1)
		}
		return strings.Compare(a, b)
	})
	list := make([]rules.Rule, len(ids))
	for i, id := range ids {
		work.done(1)
		list[i] = *byID[id]
	}
	set, err := rules.Compile(list)
	if err != nil {
		return nil, refused(err)
	}
	return set, nil
}

func parseRule(item *control.Item) (rules.Rule, error) {
	r, err := control.ParseRule(item.Body)
	if err == nil && r.ID != item.ID {
		err = fmt.Errorf("its body is of rule %s", rules.Quote(r.ID))
	}
	if err != nil {
		return r, refused(fmt.Errorf("rule %s: %w", rules.Quote(item.ID), err))
	}
	return r, nil
}

func parseClient(item *control.Item) (rules.Client, error) {
	c, err := control.ParseClient(item.Body)
	if err == nil && c.ID != item.ID {
		err = fmt.Errorf("its body is of client %s", rules.Quote(c.ID))
	}
	if err != nil {
		return c, refused(fmt.Errorf("client %s: %w", rules.Quote(item.ID), err))
	}
	return c, nil
}

// errOrder is for a snapshot whose rules come after clients, which are held against them.
var errOrder = errors.New("rules after clients")

// A whole takes all that there is, and makes it ready.
type whole struct {
	header control.Header
	held   held
	doubt  func(*rules.Client)
}

func newWhole(h control.Header, doubt func(*rules.Client)) (*whole, error) {
	registry, err := rules.NewRegistry()
	if err != nil {
		return nil, err
	}
	return &whole{header: h, doubt: doubt, held: held{
		mark: h.Mark(), rules: map[string]*rules.Rule{}, clients: clients{registry: registry}, overlay: newOverlay(),
	}}, nil
}

func (w *whole) item(item *control.Item) error {
	h := &w.held
	if item.Deleted {
		return nil
	}
	switch item.Kind {
	case control.KindRule:
		if h.set != nil {
			return refused(errOrder)
		}
		r, err := parseRule(item)
		if err != nil {
			return err
		}
		h.rules[r.ID] = &r
	case control.KindClient:
		if err := w.ready(); err != nil {
			return err
		}
		c, err := parseClient(item)
		if err != nil {
			return err
		}
		w.doubt(&c)
		return h.register(c, h.set)
	case control.KindOverride:
		if err := h.overlay.take(item); err != nil {
			return refused(err)
		}
	default:
		return refused(fmt.Errorf("an object of kind %q, which this version does not know", item.Kind))
	}
	return nil
}

// ready compiles the rules when all are there.
func (w *whole) ready() (err error) {
	if w.held.set == nil {
		w.held.set, err = compile(w.held.rules)
	}
	return err
}

// finish returns what is held when all has come.
func (w *whole) finish(now time.Time) (*held, error) {
	if err := w.ready(); err != nil {
		return nil, err
	}
	h := &w.held
	h.set = h.set.WithClients(h.clients.registry)
	if err := h.overlay.lay(&h.clients, h.set, now); err != nil {
		return nil, refused(err)
	}
	return h, nil
}

// register puts a client in the registry, with the overrides that lie over it.
func (h *held) register(c rules.Client, set *rules.Set) error {
	if err := set.Check(c); err != nil {
		return refused(fmt.Errorf("client %s: %w", rules.Quote(c.ID), err))
	}
	h.expel(&c)
	shown := c
	if over := h.overlay.over[c.ID]; over != nil {
		over.base = &c
		for _, each := range over.by {
			var err error
			if shown, err = each.Over(shown); err != nil {
				return refused(err)
			}
		}
		over.shown = shown
	}
	if err := h.clients.put(shown); err != nil {
		return refused(fmt.Errorf("%w: client %s: %w", errTangled, rules.Quote(c.ID), err))
	}
	return nil
}

// expel removes those who are registered for the while by values that a client brings, and by its id.
func (h *held) expel(c *rules.Client) {
	if len(h.overlay.over) == 0 {
		return
	}
	remove := func(id string) {
		if over := h.overlay.over[id]; over != nil && over.base == nil {
			h.clients.remove(id)
			delete(h.overlay.over, id)
		}
	}
	remove(c.ID)
	tests := c.Attributes
	if len(tests) == 0 {
		tests = []rules.Test{{Attribute: userAttribute, Values: []string{c.ID}}}
	}
	for _, t := range tests {
		for _, text := range t.Values {
			if found, ok := h.clients.registry.Lookup(t.Attribute, text); ok {
				remove(found.ID)
			}
		}
	}
}

// A delta takes what has changed.
type delta struct {
	header    control.Header
	rules     map[string]*rules.Rule   // nil if it is gone
	clients   map[string]*rules.Client // nil if it is gone
	overrides map[string]*control.Item // nil if it is gone
	doubt     func(*rules.Client)
}

func newDelta(h control.Header, doubt func(*rules.Client)) *delta {
	return &delta{
		header: h, doubt: doubt, rules: map[string]*rules.Rule{}, clients: map[string]*rules.Client{}, overrides: map[string]*control.Item{},
	}
}

func (d *delta) item(item *control.Item) error {
	switch item.Kind {
	case control.KindRule:
		d.rules[item.ID] = nil
		if !item.Deleted {
			r, err := parseRule(item)
			if err != nil {
				return err
			}
			d.rules[item.ID] = &r
		}
	case control.KindClient:
		d.clients[item.ID] = nil
		if !item.Deleted {
			c, err := parseClient(item)
			if err != nil {
				return err
			}
			d.doubt(&c)
			d.clients[item.ID] = &c
		}
	case control.KindOverride:
		d.overrides[item.ID] = nil
		if !item.Deleted {
			kept := *item
			kept.Body = slices.Clone(item.Body)
			d.overrides[item.ID] = &kept
		}
	default:
		return refused(fmt.Errorf("an object of kind %q, which this version does not know", item.Kind))
	}
	return nil
}

// errTangled is for a client who has a value of another. In a change that may be because two exchange theirs, which cannot be
// done one after the other: fetching everything helps.
var errTangled = errors.New("two clients of one value")

// change makes h what it is after a delta: all of it or, if the error is not nil, nothing. Apply is called with the rules if
// they have changed. If not even going back was possible broken is true.
func (h *held) change(d *delta, now time.Time, apply func(*rules.Set) error) (broken bool, err error) {
	next := held{mark: d.header.Mark(), rules: h.rules, clients: clients{registry: h.clients.registry}, set: h.set}
	if len(d.rules) > 0 {
		next.rules = maps.Clone(h.rules)
		for id, r := range d.rules {
			if r == nil {
				delete(next.rules, id)
			} else {
				next.rules[id] = r
			}
		}
		if next.set, err = compile(next.rules); err != nil {
			return false, err
		}
		next.set = next.set.WithClients(next.clients.registry)
	}
	next.overlay = h.overlay.clone()
	// Those who decide see all of it or nothing: what is in force shows what was until it is over.
	end := h.clients.registry.Hide(h.set)
	next.clients.begin()
	if err = next.changeClients(d, now); err == nil && next.set != h.set {
		if err = apply(next.set); err != nil {
			err = refused(err)
		}
	}
	if err != nil {
		back := next.clients.back()
		end(true)
		if back != nil {
			return true, errors.Join(err, back)
		}
		return false, err
	}
	end(next.set == h.set) // other rules show it already, and the old ones need not
	next.clients.keep()
	*h = next
	return false, nil
}

func (h *held) changeClients(d *delta, now time.Time) error {
	for id, c := range d.clients {
		if c == nil {
			if over := h.overlay.over[id]; over != nil && over.base == nil {
				continue // it is one for the while, by chance of the same id
			}
			h.clients.remove(id)
			delete(h.overlay.over, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.clients)) {
		if c := d.clients[id]; c != nil {
			if err := h.register(*c, h.set); err != nil {
				return err
			}
		}
	}
	for id, item := range d.overrides {
		delete(h.overlay.overrides, id)
		if item != nil {
			if err := h.overlay.take(item); err != nil {
				return refused(err)
			}
		}
	}
	if len(h.overlay.overrides)+len(h.overlay.over) == 0 {
		return nil
	}
	if err := h.overlay.lay(&h.clients, h.set, now); err != nil {
		return refused(err)
	}
	return nil
}

// expire ends the overrides whose time is over.
func (h *held) expire(now time.Time) (broken bool, err error) {
	return h.change(newDelta(control.Header{Revision: h.mark.Revision, Time: h.mark.Time()}, nil), now, nil)
}
