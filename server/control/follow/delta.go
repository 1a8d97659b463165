package follow

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/control"
)

// A deltaSink collects the objects of a delta, the changes since a revision.
type deltaSink struct {
	header      control.Header
	rules       map[string]*rules.Rule   // nil for a deleted one
	clients     map[string]*rules.Client // nil for a deleted one
	overrides   map[string]*control.Item // nil for a deleted one
	checkClient func(*rules.Client)

	suspensions map[string]*control.Suspension // nil for a deleted one
}

func newDeltaSink(h control.Header, checkClient func(*rules.Client)) *deltaSink {
	return &deltaSink{
		header: h, checkClient: checkClient,
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
			d.checkClient(&c)
			d.clients[item.ID] = &c
		}
	case control.KindOverride:
		d.overrides[item.ID] = nil
		if !item.Deleted {
			copied := *item
			copied.Body = slices.Clone(item.Body)
			d.overrides[item.ID] = &copied
		}
	case control.KindSuspension:
		d.suspensions[item.ID] = nil
		if !item.Deleted {
			s, err := control.ParseSuspension(item.ID, item.Body)
			if err != nil {
				return refusedError(err)
			}
			d.suspensions[item.ID] = &s
		}
	default:
		return refusedError(fmt.Errorf("unknown kind of object %q", item.Kind))
	}
	return nil
}

// errSharedValue means that a client has a value of another client. In a change, two clients may swap values, which
// fails one by one: fetching everything helps.
var errSharedValue = errors.New("two clients have the same value")

// apply applies a delta: completely or, if the error is not nil, not at all. It calls the function apply if the rules
// change. broken reports that undoing a failed delta failed, too.
func (state *ruleState) apply(d *deltaSink, now time.Time, apply func(*match.Set) error) (broken bool, err error) {
	next := ruleState{
		mark: d.header.Mark(), clients: undoRegistry{registry: state.clients.registry}, set: state.set,
		rules: patched(state.rules, d.rules), suspensions: patched(state.suspensions, d.suspensions),
	}
	if len(d.rules) > 0 {
		if next.set, err = compile(next.rules); err != nil {
			return false, err
		}
		next.set = next.set.WithClients(next.clients.registry)
	}
	next.overlay = state.overlay.clone()
	// Decisions see all changes or none: the set in force shows the old clients until the end.
	end := state.set.HideChanges()
	next.clients.begin()
	if err = next.applyClients(d, next.set); err == nil {
		err = next.applyOverlay(now)
	}
	if err == nil && next.set != state.set {
		if err = apply(next.set); err != nil {
			err = refusedError(err)
		}
	}
	if err != nil {
		undoErr := next.clients.rollback()
		end(true)
		if undoErr != nil {
			return true, errors.Join(err, undoErr)
		}
		return false, err
	}
	end(next.set == state.set) // a new set shows the changes already
	next.clients.commit()
	*state = next
	return false, nil
}

// patched returns a copy of a map with changes applied. A nil value deletes its key. Without changes, it returns the map
// itself.
func patched[T any](m, changes map[string]*T) map[string]*T {
	if len(changes) == 0 {
		return m
	}
	m = maps.Clone(m)
	patch(m, changes)
	return m
}

// patch applies changes to a map. A nil value deletes its key.
func patch[T any](m, changes map[string]*T) {
	for key, v := range changes {
		if v == nil {
			delete(m, key)
		} else {
			m[key] = v
		}
	}
}

// replay applies a delta from the disk: completely or, if the error is not nil, not at all. The delta was in force once, so
// its clients are not checked. After the last delta, finishReplay compiles the rules once for all: compiling them for
// each delta would take minutes if there are many.
func (state *ruleState) replay(d *deltaSink) error {
	overlay := state.overlay.clone()
	state.clients.begin()
	if err := state.applyClients(d, nil); err != nil {
		state.overlay = overlay
		return errors.Join(err, state.clients.rollback())
	}
	state.clients.commit()
	state.mark = d.header.Mark()
	patch(state.rules, d.rules)
	patch(state.suspensions, d.suspensions)
	return nil
}

// finishReplay makes the state usable after replay.
func (state *ruleState) finishReplay(now time.Time) error {
	set, err := compile(state.rules)
	if err != nil {
		return err
	}
	state.set = set.WithClients(state.clients.registry)
	return state.applyOverlay(now)
}

// applyClients applies the clients and overrides of a delta. It checks the clients against a set, if that is not nil.
// applyOverlay has to follow.
func (state *ruleState) applyClients(d *deltaSink, set *match.Set) error {
	for id, c := range d.clients {
		if c == nil {
			if overridden := state.overlay.clients[id]; overridden != nil && overridden.base == nil {
				continue // a temporary client that happens to have the same id
			}
			state.clients.remove(id)
			delete(state.overlay.clients, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.clients)) {
		if c := d.clients[id]; c != nil {
			if err := state.register(*c, set); err != nil {
				return err
			}
		}
	}
	for id, item := range d.overrides {
		delete(state.overlay.overrides, id)
		if item != nil {
			if err := state.overlay.add(item); err != nil {
				return refusedError(err)
			}
		}
	}
	return nil
}

// applyOverlay updates the clients to the overrides in force.
func (state *ruleState) applyOverlay(now time.Time) error {
	if len(state.overlay.overrides)+len(state.overlay.clients) == 0 {
		return nil
	}
	if err := state.overlay.apply(&state.clients, state.set, now); err != nil {
		return refusedError(err)
	}
	return nil
}

// expire ends the expired overrides: a delta without objects applies the overrides that are still in force.
func (state *ruleState) expire(now time.Time) (broken bool, err error) {
	return state.apply(newDeltaSink(control.Header{Revision: state.mark.Revision, Time: state.mark.Time()}, nil), now, nil)
}
