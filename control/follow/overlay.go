package follow

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules"
)

// An overlay lays temporary overrides over the clients of a registry.
type overlay struct {
	overrides map[string]*override
	over      map[string]*overlaid // clients that are other than registered, by id
}

// An override is one that was sent.
type override struct {
	control.Override
	revision int64
}

// An overlaid is a client that overrides change.
type overlaid struct {
	base  *rules.Client // as it is registered, nil if it is for the while alone
	by    []*override
	shown rules.Client // as it is in the registry
}

func newOverlay() overlay {
	return overlay{overrides: map[string]*override{}, over: map[string]*overlaid{}}
}

func (o *overlay) clone() overlay {
	made := overlay{overrides: maps.Clone(o.overrides), over: make(map[string]*overlaid, len(o.over))}
	for id, c := range o.over {
		copied := *c
		made.over[id] = &copied
	}
	return made
}

// take takes an override that was sent.
func (o *overlay) take(item *control.Item) error {
	parsed, err := control.ParseOverride("override.json", item.Body, time.Time{})
	if err != nil {
		return fmt.Errorf("override %s: %w", rules.Quote(item.ID), err)
	}
	o.overrides[item.ID] = &override{parsed, item.Revision}
	return nil
}

// active returns those that hold at a time, in the order in which they are laid: those of one rule over those of all, later
// ones over earlier ones, and those that block last.
func (o *overlay) active(now time.Time) []*override {
	var list []*override
	for _, each := range o.overrides {
		if each.Expires.After(now) {
			list = append(list, each)
		}
	}
	slices.SortFunc(list, func(a, b *override) int {
		return cmp.Or(
			compareBools(a.Rule != "", b.Rule != ""), compareBools(a.Block, b.Block),
			cmp.Compare(a.revision, b.revision), cmp.Compare(a.ID, b.ID),
		)
	})
	return list
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// next returns when the next override ends, zero if none will.
func (o *overlay) next(now time.Time) time.Time {
	var first time.Time
	for _, each := range o.overrides {
		if each.Expires.After(now) && (first.IsZero() || each.Expires.Before(first)) {
			first = each.Expires
		}
	}
	return first
}

// count returns how many hold.
func (o *overlay) count(now time.Time) int { return len(o.active(now)) }

// lay makes the clients of a registry what they are with the overrides that hold at a time. An override of a rule that is not
// in the set has nothing to say.
func (o *overlay) lay(to *clients, set *rules.Set, now time.Time) error {
	wanted, order, err := o.wanted(to, set, now)
	if err != nil {
		return err
	}
	for id, c := range o.over {
		if wanted[id] != nil {
			continue
		}
		if c.base == nil {
			to.remove(id)
		} else if err := to.put(*c.base); err != nil {
			return err
		}
		delete(o.over, id)
	}
	for _, id := range order {
		c := wanted[id]
		if old := o.over[id]; old == nil || !reflect.DeepEqual(old.shown, c.shown) {
			if err := to.put(c.shown); err != nil {
				return err
			}
		}
		o.over[id] = c
	}
	return nil
}

// wanted returns the clients that overrides change, and their ids in the order in which overrides name them.
func (o *overlay) wanted(to *clients, set *rules.Set, now time.Time) (map[string]*overlaid, []string, error) {
	wanted := map[string]*overlaid{}
	var order []string
	named := map[value]string{} // values that nobody has, and the client that is made for each
	for _, each := range o.active(now) {
		if each.Rule != "" && set.Rule(each.Rule) == nil {
			continue
		}
		granted, err := each.Registered()
		if err != nil {
			return nil, nil, fmt.Errorf("override %s: %w", rules.Quote(each.ID), err)
		}
		seen := map[string]bool{} // several of its attributes may name one client
		for i, t := range granted.Attributes {
			id, made := o.meant(to, each, i, t, named)
			if seen[id] {
				continue
			}
			seen[id] = true
			if wanted[id] == nil {
				wanted[id] = made
				order = append(order, id)
			}
			c := wanted[id]
			c.by = append(c.by, each)
			if c.shown, err = each.Over(c.shown); err != nil {
				return nil, nil, fmt.Errorf("override %s: %w", rules.Quote(each.ID), err)
			}
		}
	}
	return wanted, order, nil
}

// A value is that of an attribute.
type value struct{ attribute, text string }

// meant returns the client that an attribute of an override names, as it is without any.
func (o *overlay) meant(to *clients, by *override, i int, t rules.Test, named map[value]string) (string, *overlaid) {
	if found, ok := to.registry.Lookup(t.Attribute, t.Values[0]); ok {
		switch over := o.over[found.ID]; {
		case over == nil:
			base := asGiven(found)
			return found.ID, &overlaid{base: &base, shown: base}
		case over.base != nil:
			return found.ID, &overlaid{base: over.base, shown: *over.base}
		}
	}
	key := value{t.Attribute.String(), t.Values[0]}
	id, ok := named[key]
	if !ok {
		id = o.idFor(to, by.ID, i)
		named[key] = id
	}
	return id, &overlaid{shown: rules.Client{ID: id, Attributes: []rules.Test{t}}}
}

// idFor returns an id for a client that is registered for the while, which nobody else has.
func (o *overlay) idFor(to *clients, override string, i int) string {
	id := "override:" + override
	if len(id) > rules.MaxName-8 {
		sum := sha256.Sum256([]byte(override))
		id = "override:" + hex.EncodeToString(sum[:16])
	}
	if i > 0 {
		id = fmt.Sprint(id, ":", i)
	}
	for {
		_, taken := to.registry.Get(id)
		if c := o.over[id]; !taken || c != nil && c.base == nil {
			return id
		}
		id += "+"
	}
}
