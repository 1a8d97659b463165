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

// A ruleState is the node's copy of its namespace. Only one goroutine changes it.
type ruleState struct {
	mark    control.Mark
	rules   map[string]*rules.Rule // by ID; read-only, because copies of the state share the map
	clients undoRegistry
	overlay overlay
	// suspensions are the suspensions by ID. Like rules, the map is shared and read-only.
	suspensions map[string]*control.Suspension
	set         *match.Set
}

// ErrRefused means that the rules were received completely, but this node cannot use them.
var ErrRefused = errors.New("rules refused")

func refusedError(err error) error { return fmt.Errorf("%w: %w", ErrRefused, err) }

// compile compiles rules in the order of their IDs. It pauses during the work, so that decisions can run.
func compile(byID map[string]*rules.Rule) (*match.Set, error) {
	var work workPacer
	ids := slices.AppendSeq(make([]string, 0, len(byID)), maps.Keys(byID))
	compared := 0
	slices.SortFunc(ids, func(a, b string) int {
		if compared++; compared%32 == 0 { // a comparison takes about 1/32 of the time of a unit of work
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
		return nil, refusedError(err)
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
		err = fmt.Errorf("its body belongs to %s %s", item.Kind, rules.Quote(id))
	}
	if err != nil {
		return refusedError(fmt.Errorf("%s %s: %w", item.Kind, rules.Quote(item.ID), err))
	}
	return nil
}

// errOrder means that a snapshot has a rule after a client. Clients are checked against the rules, so rules come first.
var errOrder = errors.New("rules after clients")

// A snapshotSink builds a ruleState from the objects of a snapshot.
type snapshotSink struct {
	state       ruleState
	checkClient func(*rules.Client)
}

func newSnapshotSink(h control.Header, checkClient func(*rules.Client)) (*snapshotSink, error) {
	registry, err := registry.New()
	if err != nil {
		return nil, err
	}
	return &snapshotSink{checkClient: checkClient, state: ruleState{
		mark: h.Mark(), rules: map[string]*rules.Rule{}, clients: undoRegistry{registry: registry}, overlay: newOverlay(),
		suspensions: map[string]*control.Suspension{},
	}}, nil
}

func (w *snapshotSink) item(item *control.Item) error {
	state := &w.state
	if item.Deleted {
		return nil
	}
	switch item.Kind {
	case control.KindRule:
		if state.set != nil {
			return refusedError(errOrder)
		}
		r, err := parseRule(item)
		if err != nil {
			return err
		}
		state.rules[r.ID] = &r
	case control.KindClient:
		if err := w.compileOnce(); err != nil {
			return err
		}
		c, err := parseClient(item)
		if err != nil {
			return err
		}
		w.checkClient(&c)
		return state.register(c, state.set)
	case control.KindOverride:
		if err := state.overlay.add(item); err != nil {
			return refusedError(err)
		}
	case control.KindSuspension:
		s, err := control.ParseSuspension(item.ID, item.Body)
		if err != nil {
			return refusedError(err)
		}
		state.suspensions[item.ID] = &s
	default:
		return refusedError(fmt.Errorf("unknown kind of object %q", item.Kind))
	}
	return nil
}

// compileOnce compiles the rules if that has not been done. It is called when all rules were received.
func (w *snapshotSink) compileOnce() (err error) {
	if w.state.set == nil {
		w.state.set, err = compile(w.state.rules)
	}
	return err
}

// finish returns the state. It is called when all objects were received.
func (w *snapshotSink) finish(now time.Time) (*ruleState, error) {
	if err := w.compileOnce(); err != nil {
		return nil, err
	}
	state := &w.state
	state.set = state.set.WithClients(state.clients.registry)
	if err := state.overlay.apply(&state.clients, state.set, now); err != nil {
		return nil, refusedError(err)
	}
	return state, nil
}

// register puts a client in the registry, with its overrides applied. Unless set is nil, register checks the client
// against it.
func (state *ruleState) register(c rules.Client, set *match.Set) error {
	if set != nil {
		if err := set.Check(c); err != nil {
			return refusedError(fmt.Errorf("client %s: %w", rules.Quote(c.ID), err))
		}
	}
	state.removeTemporary(&c)
	effective := c
	if overridden := state.overlay.clients[c.ID]; overridden != nil {
		overridden.base = &c
		for _, entry := range overridden.overrides {
			var err error
			if effective, err = entry.ApplyTo(effective); err != nil {
				return refusedError(err)
			}
		}
		overridden.effective = effective
	}
	if err := state.clients.put(effective); err != nil {
		return refusedError(fmt.Errorf("%w: client %s: %w", errSharedValue, rules.Quote(c.ID), err))
	}
	return nil
}

// removeTemporary removes the temporary clients that have the ID or an attribute value of a client to be registered.
func (state *ruleState) removeTemporary(c *rules.Client) {
	if len(state.overlay.clients) == 0 {
		return
	}
	remove := func(id string) {
		if overridden := state.overlay.clients[id]; overridden != nil && overridden.base == nil {
			state.clients.remove(id)
			delete(state.overlay.clients, id)
		}
	}
	remove(c.ID)
	tests := c.Attributes
	if len(tests) == 0 {
		tests = []rules.Test{{Attribute: userAttribute, Values: []string{c.ID}}}
	}
	for _, t := range tests {
		for _, text := range t.Values {
			if found, ok := state.clients.registry.Lookup(t.Attribute, text); ok {
				remove(found.ID)
			}
		}
	}
}
