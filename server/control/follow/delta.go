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

// A deltaSink collects the objects that have changed since a revision. A nil value in a map means that the object was
// deleted.
type deltaSink struct {
	header      control.Header
	rules       map[string]*rules.Rule
	clients     map[string]*rules.Client
	overrides   map[string]*control.Item
	checkClient func(*rules.Client)
	suspensions map[string]*control.Suspension
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

// errSharedValue means that two clients have the same attribute value. It also occurs when a delta swaps values of two
// clients, because the clients are replaced one by one. Fetching all objects then helps.
var errSharedValue = errors.New("two clients have the same value")

// apply applies a delta and, if rules change, calls the function apply. After an error, the state is unchanged, unless
// broken is true: then undoing the delta has failed, too.
func (state *ruleState) apply(d *deltaSink, now time.Time, apply func(*match.Set) error) (broken bool, err error) {
	next := ruleState{
		mark: d.header.Mark(), clients: undoRegistry{registry: state.clients.registry}, set: state.set,
		rules: patchedCopy(state.rules, d.rules), suspensions: patchedCopy(state.suspensions, d.suspensions),
	}
	if len(d.rules) > 0 {
		if next.set, err = compile(next.rules); err != nil {
			return false, err
		}
		next.set = next.set.WithClients(next.clients.registry)
	}
	next.overlay = state.overlay.clone()
	// Decisions must see all changes or none: the set in force shows the old clients until showChanges is called.
	showChanges := state.set.HideChanges()
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
		showChanges(true)
		if undoErr != nil {
			return true, errors.Join(err, undoErr)
		}
		return false, err
	}
	showChanges(next.set == state.set) // a new set shows the changes already
	next.clients.commit()
	*state = next
	return false, nil
}

// patchedCopy returns a copy of a map with changes applied, or the map itself if there are no changes. A nil value
// deletes its key.
func patchedCopy[T any](m, changes map[string]*T) map[string]*T {
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

// replay applies a delta from the disk: completely or, if the error is not nil, not at all. It does not check clients,
// because the delta has been in force before. It does not compile rules either, which could take minutes if there are
// many deltas: finishReplay does so once, after the last delta.
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

// applyClients applies the clients and overrides of a delta. Unless set is nil, it checks the clients against it. The
// caller must call applyOverlay afterwards.
func (state *ruleState) applyClients(d *deltaSink, set *match.Set) error {
	for id, c := range d.clients {
		if c == nil {
			if overridden := state.overlay.clients[id]; overridden != nil && overridden.base == nil {
				continue // a temporary client has the same ID by chance
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

// applyOverlay applies the overrides in force to the clients.
func (state *ruleState) applyOverlay(now time.Time) error {
	if len(state.overlay.overrides)+len(state.overlay.clients) == 0 {
		return nil
	}
	if err := state.overlay.apply(&state.clients, state.set, now); err != nil {
		return refusedError(err)
	}
	return nil
}

// expire removes expired overrides from the clients, by applying an empty delta.
func (state *ruleState) expire(now time.Time) (broken bool, err error) {
	return state.apply(newDeltaSink(control.Header{Revision: state.mark.Revision, Time: state.mark.Time()}, nil), now, nil)
}
