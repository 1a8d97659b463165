package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules"
)

// A space is a namespace as the database has it, made ready for changes to be held against: its rules compiled, its clients
// registered. Who changes one client does so in the time that one client takes, however many there are.
type space struct {
	name string

	mu        sync.Mutex // held by who changes the namespace
	loaded    bool
	mark      control.Mark // of what nodes get, which is all that is here
	last      int64        // the namespace's revision
	rules     map[string]heldRule
	set       *rules.Set
	clients   *rules.Registry
	overrides map[string]control.Override
}

type heldRule struct {
	rule rules.Rule
	body []byte
}

// spaces are those in memory.
type spaces struct {
	mu     sync.Mutex
	byName map[string]*space
	used   []string // the last used last
}

// maxSpaces is how many namespaces are kept ready.
const maxSpaces = 64

// get returns a space, which may have to be loaded.
func (s *spaces) get(name string) *space {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.byName[name]
	if sp == nil {
		if len(s.byName) == maxSpaces {
			// Whoever has it still uses it as it is, and the database knows if it is not what it was.
			delete(s.byName, s.used[0])
			s.used = s.used[1:]
		}
		sp = &space{name: name}
		s.byName[name] = sp
	}
	if i := slices.Index(s.used, name); i >= 0 {
		s.used = slices.Delete(s.used, i, i+1)
	}
	s.used = append(s.used, name)
	return sp
}

// maxCaughtUp is how many changed objects a space takes in one by one; it is loaded again for more.
const maxCaughtUp = 50_000

// refresh makes the space what the database has.
func (sp *space) refresh(ctx context.Context, db control.DB) error {
	last, forNodes, err := db.Revision(ctx, sp.name)
	if err != nil {
		return err
	}
	if sp.last = last; !sp.loaded || sp.mark.Revision > forNodes {
		return sp.load(ctx, db)
	}
	// The database may have been restored, and its numbers mean something else now.
	if was, err := markOf(ctx, db, sp.mark.Revision); err != nil {
		return err
	} else if was != sp.mark {
		return sp.load(ctx, db)
	}
	if sp.mark.Revision == forNodes {
		return nil
	}
	changed, revision, err := db.Since(ctx, sp.name, sp.mark.Revision, maxCaughtUp)
	switch {
	case errors.Is(err, control.ErrPruned):
		return sp.load(ctx, db)
	case err != nil:
		return err
	}
	if sp.catchUp(changed) != nil { // it was loaded from what can't be now: begin again
		return sp.load(ctx, db)
	}
	sp.mark, err = markOf(ctx, db, revision)
	return err
}

// load reads all of it.
func (sp *space) load(ctx context.Context, db control.DB) error {
	sp.loaded = false
	sp.rules, sp.overrides = map[string]heldRule{}, map[string]control.Override{}
	clients, err := rules.NewRegistry()
	if err != nil {
		return err
	}
	sp.clients = clients
	revision, err := db.Snapshot(ctx, sp.name, func(o *control.Object) error { return sp.take(o.Kind, o.ID, o.Body) })
	if err != nil {
		return fmt.Errorf("load namespace %s: %w", sp.name, err)
	}
	if sp.set, err = compile(sp.rules); err != nil {
		return fmt.Errorf("load namespace %s: %w", sp.name, err)
	}
	sp.mark, err = markOf(ctx, db, revision)
	sp.loaded = err == nil
	return err
}

// catchUp takes what others have changed.
func (sp *space) catchUp(changed []control.Object) error {
	recompile := false
	// A value may have gone from one client to another.
	for i := range changed {
		if changed[i].Kind == control.KindClient {
			sp.dropClient(changed[i].ID)
		}
	}
	for i := range changed {
		o := &changed[i]
		recompile = recompile || o.Kind == control.KindRule
		if err := sp.take(o.Kind, o.ID, o.Body); err != nil {
			sp.loaded = false
			return err
		}
	}
	if recompile {
		set, err := compile(sp.rules)
		if err != nil {
			sp.loaded = false
			return err
		}
		sp.set = set
	}
	return nil
}

// take makes an object what the database says it is: nothing if body is nil.
func (sp *space) take(kind control.Kind, id string, body []byte) error {
	switch kind {
	case control.KindRule:
		delete(sp.rules, id)
		if body != nil {
			r, err := control.ParseRule(body)
			if err != nil {
				return fmt.Errorf("rule %s: %w", id, err)
			}
			sp.rules[id] = heldRule{r, bytes.Clone(body)}
		}
	case control.KindClient:
		sp.dropClient(id)
		if body != nil {
			c, err := control.ParseClient(body)
			if err != nil {
				return fmt.Errorf("client %s: %w", id, err)
			}
			return sp.clients.Add(c)
		}
	case control.KindOverride:
		delete(sp.overrides, id)
		if body != nil {
			o, err := parseOverride(body)
			if err != nil {
				return fmt.Errorf("override %s: %w", id, err)
			}
			sp.overrides[id] = o
		}
	}
	return nil
}

// dropClient forgets a client and returns it, false if there is none.
func (sp *space) dropClient(id string) (rules.Client, bool) {
	c, ok := sp.clients.Remove(id)
	return asGiven(c), ok
}

// asGiven returns a client without the names that a registry has given to limits: they begin with a digit, which none that
// is given may.
func asGiven(c rules.Client) rules.Client {
	unname := func(limits []rules.Limit) []rules.Limit {
		limits = slices.Clone(limits)
		for i := range limits {
			if name := limits[i].Name; name != "" && name[0] >= '0' && name[0] <= '9' {
				limits[i].Name = ""
			}
		}
		return limits
	}
	c.Limits = unname(c.Limits)
	c.Rules = slices.Clone(c.Rules)
	for i := range c.Rules {
		c.Rules[i].Limits = unname(c.Rules[i].Limits)
	}
	return c
}

// compile makes rules ready. Their order is that of their ids.
func compile(held map[string]heldRule) (*rules.Set, error) {
	ids := slices.Sorted(maps.Keys(held))
	list := make([]rules.Rule, len(ids))
	for i, id := range ids {
		list[i] = held[id].rule
	}
	set, err := rules.Compile(list)
	var wrong *rules.Error
	if errors.As(err, &wrong) {
		for i := range wrong.Problems {
			p := &wrong.Problems[i]
			if number, rest, ok := strings.Cut(strings.TrimPrefix(p.Path, "rules["), "]"); ok {
				if n, err := strconv.Atoi(number); err == nil && n < len(ids) {
					p.Path = join("rules/"+ids[n], strings.TrimPrefix(rest, "."))
				}
			}
		}
	}
	return set, err
}

// join puts a path behind the name of what it is in.
func join(of, path string) string {
	switch {
	case of == "":
		return path
	case path == "":
		return of
	default:
		return of + "." + path
	}
}
