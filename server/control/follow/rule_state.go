package follow

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/rules/registry"
	"github.com/headgate/headgate/server/control"
)

var userAttribute = headgate.Attribute{Kind: headgate.AttrUser}

// ruleState is the node's copy of its namespace. Only one goroutine changes it.
type ruleState struct {
	mark    control.Mark
	rules   map[string]*rules.Rule // read-only, because it is shared
	clients undoRegistry
	overlay overlay
	// suspensions are by ID. Like rules, the map is read-only.
	suspensions map[string]control.Suspension
	set         *match.Set
}

// ErrRefused is wrapped by errors about complete data that cannot be used here.
var ErrRefused = errors.New("rules refused")

func refused(err error) error { return fmt.Errorf("%w: %w", ErrRefused, err) }

// compile compiles the rules of a map, sorted by id.
func compile(byID map[string]*rules.Rule) (*match.Set, error) {
	var work workPacer
	ids := slices.AppendSeq(make([]string, 0, len(byID)), maps.Keys(byID))
	compared := 0
	slices.SortFunc(ids, func(a, b string) int {
		if compared++; compared%32 == 0 { // a comparison is much cheaper than a unit of work
			work.add(1)
		}
		return strings.Compare(a, b)
	})
	list := make([]rules.Rule, len(ids))
	for i, id := range ids {
		work.add(1)
		list[i] = *byID[id]
	}
	set, err := match.Compile(list)
	if err != nil {
		return nil, refused(err)
	}
	return set, nil
}

func parseRule(item *control.Item) (rules.Rule, error) {
	r, err := control.ParseRule(item.Body)
	return r, checkParsed(item, r.ID, err)
}

func parseClient(item *control.Item) (rules.Client, error) {
	c, err := control.ParseClient(item.Body)
	return c, checkParsed(item, c.ID, err)
}

// checkParsed returns an error if a body could not be parsed, or has another ID than its item.
func checkParsed(item *control.Item, id string, err error) error {
	if err == nil && id != item.ID {
		err = fmt.Errorf("its body is of %s %s", item.Kind, rules.Quote(id))
	}
	if err != nil {
		return refused(fmt.Errorf("%s %s: %w", item.Kind, rules.Quote(item.ID), err))
	}
	return nil
}

// errOrder means that a snapshot has rules after clients, which are checked against the rules.
var errOrder = errors.New("rules after clients")

// A snapshotSink is the sink of a snapshot.
type snapshotSink struct {
	header control.Header
	state  ruleState
	doubt  func(*rules.Client)
}

func newWhole(h control.Header, doubt func(*rules.Client)) (*snapshotSink, error) {
	registry, err := registry.New()
	if err != nil {
		return nil, err
	}
	return &snapshotSink{header: h, doubt: doubt, state: ruleState{
		mark: h.Mark(), rules: map[string]*rules.Rule{}, clients: undoRegistry{registry: registry}, overlay: newOverlay(),
		suspensions: map[string]control.Suspension{},
	}}, nil
}

func (w *snapshotSink) item(item *control.Item) error {
	h := &w.state
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
		if err := w.compileOnce(); err != nil {
			return err
		}
		c, err := parseClient(item)
		if err != nil {
			return err
		}
		w.doubt(&c)
		return h.register(c, h.set)
	case control.KindOverride:
		if err := h.overlay.add(item); err != nil {
			return refused(err)
		}
	case control.KindSuspension:
		s, err := control.ParseSuspension(item.ID, item.Body)
		if err != nil {
			return refused(err)
		}
		h.suspensions[item.ID] = s
	default:
		return refused(fmt.Errorf("unknown kind of object %q", item.Kind))
	}
	return nil
}

// compileOnce compiles the rules once all were received.
func (w *snapshotSink) compileOnce() (err error) {
	if w.state.set == nil {
		w.state.set, err = compile(w.state.rules)
	}
	return err
}

// finish returns the rules when all objects were received.
func (w *snapshotSink) finish(now time.Time) (*ruleState, error) {
	if err := w.compileOnce(); err != nil {
		return nil, err
	}
	h := &w.state
	h.set = h.set.WithClients(h.clients.registry)
	if err := h.overlay.apply(&h.clients, h.set, now); err != nil {
		return nil, refused(err)
	}
	return h, nil
}

// register puts a client in the registry, with its overrides applied.
func (h *ruleState) register(c rules.Client, set *match.Set) error {
	if err := set.Check(c); err != nil {
		return refused(fmt.Errorf("client %s: %w", rules.Quote(c.ID), err))
	}
	h.removeTemporary(&c)
	shown := c
	if over := h.overlay.clients[c.ID]; over != nil {
		over.base = &c
		for _, each := range over.overrides {
			var err error
			if shown, err = each.ApplyTo(shown); err != nil {
				return refused(err)
			}
		}
		over.shown = shown
	}
	if err := h.clients.put(shown); err != nil {
		return refused(fmt.Errorf("%w: client %s: %w", errSharedValue, rules.Quote(c.ID), err))
	}
	return nil
}

// removeTemporary removes the temporary clients that have values of a client, or its id.
func (h *ruleState) removeTemporary(c *rules.Client) {
	if len(h.overlay.clients) == 0 {
		return
	}
	remove := func(id string) {
		if over := h.overlay.clients[id]; over != nil && over.base == nil {
			h.clients.remove(id)
			delete(h.overlay.clients, id)
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

// A deltaSink is the sink of a change.
type deltaSink struct {
	header    control.Header
	rules     map[string]*rules.Rule   // nil for a deleted one
	clients   map[string]*rules.Client // nil for a deleted one
	overrides map[string]*control.Item // nil for a deleted one
	doubt     func(*rules.Client)

	suspensions map[string]*control.Suspension // nil for a deleted one
}

func newDelta(h control.Header, doubt func(*rules.Client)) *deltaSink {
	return &deltaSink{
		header: h, doubt: doubt,
		rules: map[string]*rules.Rule{}, clients: map[string]*rules.Client{}, overrides: map[string]*control.Item{},
		suspensions: map[string]*control.Suspension{},
	}
}

func (d *deltaSink) item(item *control.Item) error {
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
	case control.KindSuspension:
		d.suspensions[item.ID] = nil
		if !item.Deleted {
			s, err := control.ParseSuspension(item.ID, item.Body)
			if err != nil {
				return refused(err)
			}
			d.suspensions[item.ID] = &s
		}
	default:
		return refused(fmt.Errorf("unknown kind of object %q", item.Kind))
	}
	return nil
}

// errSharedValue means that a client has a value of another client. In a change, two clients may swap values, which
// fails one by one: fetching everything helps.
var errSharedValue = errors.New("two clients have the same value")

// apply applies a delta to h: completely or, if the error is not nil, not at all. apply is called if the rules
// change. broken reports that the undo failed too.
func (h *ruleState) apply(d *deltaSink, now time.Time, apply func(*match.Set) error) (broken bool, err error) {
	next := ruleState{
		mark: d.header.Mark(), rules: h.rules, clients: undoRegistry{registry: h.clients.registry},
		set: h.set, suspensions: h.suspensions,
	}
	if len(d.suspensions) > 0 {
		next.suspensions = maps.Clone(h.suspensions)
		for id, s := range d.suspensions {
			if s == nil {
				delete(next.suspensions, id)
			} else {
				next.suspensions[id] = *s
			}
		}
	}
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
	// Decisions see all changes or none: the set in force shows the old clients until the end.
	end := h.set.HideChanges()
	next.clients.begin()
	if err = next.applyClients(d, now); err == nil && next.set != h.set {
		if err = apply(next.set); err != nil {
			err = refused(err)
		}
	}
	if err != nil {
		back := next.clients.rollback()
		end(true)
		if back != nil {
			return true, errors.Join(err, back)
		}
		return false, err
	}
	end(next.set == h.set) // a new set shows the changes already
	next.clients.commit()
	*h = next
	return false, nil
}

func (h *ruleState) applyClients(d *deltaSink, now time.Time) error {
	for id, c := range d.clients {
		if c == nil {
			if over := h.overlay.clients[id]; over != nil && over.base == nil {
				continue // a temporary client that happens to have the same id
			}
			h.clients.remove(id)
			delete(h.overlay.clients, id)
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
			if err := h.overlay.add(item); err != nil {
				return refused(err)
			}
		}
	}
	if len(h.overlay.overrides)+len(h.overlay.clients) == 0 {
		return nil
	}
	if err := h.overlay.apply(&h.clients, h.set, now); err != nil {
		return refused(err)
	}
	return nil
}

// expire ends the expired overrides.
func (h *ruleState) expire(now time.Time) (broken bool, err error) {
	return h.apply(newDelta(control.Header{Revision: h.mark.Revision, Time: h.mark.Time()}, nil), now, nil)
}
