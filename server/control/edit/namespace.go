package edit

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
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/rules/registry"
	"github.com/headgate/headgate/server/control"
)

// A namespace holds the rules, clients and overrides of one namespace in memory.
type namespace struct {
	name string
	db   control.DB

	mu        sync.Mutex // guards the other fields; held during an edit
	loaded    bool
	mark      control.Mark // the revision of the content in memory
	last      int64        // the namespace's last revision; higher than mark after a change of a token or webhook
	rules     map[string]storedRule
	set       *match.Set // compiled rules
	clients   *registry.Registry
	overrides map[string]control.Override
}

// A storedRule is a rule and its body in the database.
type storedRule struct {
	rule rules.Rule
	body []byte
}

// get returns an object of the namespace, or nil if it does not exist.
func (ns *namespace) get(ctx context.Context, kind control.Kind, id string) (*control.Object, error) {
	return get(ctx, ns.db, ns.name, kind, id)
}

// maxCatchUp is the maximum number of changed objects to read one by one. For more, the namespace is loaded again.
const maxCatchUp = 50_000

// refresh brings the namespace up to date with the database.
func (ns *namespace) refresh(ctx context.Context) error {
	last, forNodes, err := ns.db.Revision(ctx, ns.name)
	if err != nil {
		return err
	}
	if ns.last = last; !ns.loaded || ns.mark.Revision > forNodes {
		return ns.load(ctx)
	}
	if mark, err := control.LoadMark(ctx, ns.db, ns.mark.Revision); err != nil {
		return err
	} else if mark != ns.mark { // the database was restored, and the same numbers stand for other changes
		return ns.load(ctx)
	}
	if ns.mark.Revision == forNodes {
		return nil
	}
	changed, revision, err := ns.db.Since(ctx, ns.name, ns.mark.Revision, maxCatchUp)
	switch {
	case errors.Is(err, control.ErrPruned):
		return ns.load(ctx)
	case err != nil:
		return err
	}
	if ns.catchUp(changed) != nil { // the changes do not fit the content in memory
		return ns.load(ctx)
	}
	ns.mark, err = control.LoadMark(ctx, ns.db, revision)
	return err
}

// load reads the whole namespace.
func (ns *namespace) load(ctx context.Context) error {
	ns.loaded = false
	ns.rules, ns.overrides = map[string]storedRule{}, map[string]control.Override{}
	clients, err := registry.New()
	if err != nil {
		return err
	}
	ns.clients = clients
	revision, err := ns.db.Snapshot(ctx, ns.name, ns.put)
	if err != nil {
		return fmt.Errorf("load namespace %s: %w", ns.name, err)
	}
	if ns.set, err = compile(ns.rules); err != nil {
		return fmt.Errorf("load namespace %s: %w", ns.name, err)
	}
	ns.mark, err = control.LoadMark(ctx, ns.db, revision)
	ns.loaded = err == nil
	return err
}

// catchUp applies changes made by other processes to the content in memory.
func (ns *namespace) catchUp(changed []control.Object) error {
	ns.loaded = false // after an error, the content is incomplete
	recompile := false
	// Remove all clients before adding any: an attribute value may have moved from one client to another.
	for i := range changed {
		if changed[i].Kind == control.KindClient {
			ns.removeClient(changed[i].ID)
		}
	}
	for i := range changed {
		recompile = recompile || changed[i].Kind == control.KindRule
		if err := ns.put(&changed[i]); err != nil {
			return err
		}
	}
	if recompile {
		set, err := compile(ns.rules)
		if err != nil {
			return err
		}
		ns.set = set
	}
	ns.loaded = true
	return nil
}

// put stores an object of the database in memory. An object without a body was deleted.
func (ns *namespace) put(o *control.Object) error {
	switch o.Kind {
	case control.KindRule:
		delete(ns.rules, o.ID)
		if o.Body != nil {
			r, err := control.ParseRule(o.Body)
			if err != nil {
				return fmt.Errorf("rule %s: %w", o.ID, err)
			}
			ns.rules[o.ID] = storedRule{r, bytes.Clone(o.Body)}
		}
	case control.KindClient:
		ns.removeClient(o.ID)
		if o.Body != nil {
			c, err := control.ParseClient(o.Body)
			if err != nil {
				return fmt.Errorf("client %s: %w", o.ID, err)
			}
			return ns.clients.Add(c)
		}
	case control.KindOverride:
		delete(ns.overrides, o.ID)
		if o.Body != nil {
			override, err := control.ParseOverride("body.json", o.Body, time.Time{})
			if err != nil {
				return fmt.Errorf("override %s: %w", o.ID, err)
			}
			ns.overrides[o.ID] = override
		}
	}
	return nil
}

// removeClient removes a client and returns it, or false if there is none.
func (ns *namespace) removeClient(id string) (rules.Client, bool) {
	c, ok := ns.clients.Remove(id)
	return control.WithoutDefaultNames(c), ok
}

// compile compiles rules in the order of their IDs. The problems of its error have paths such as
// "rules/search.limits[0]".
func compile(stored map[string]storedRule) (*match.Set, error) {
	ids := slices.Sorted(maps.Keys(stored))
	list := make([]rules.Rule, len(ids))
	for i, id := range ids {
		list[i] = stored[id].rule
	}
	set, err := match.Compile(list)
	var invalid *rules.Error
	if errors.As(err, &invalid) {
		for i := range invalid.Problems {
			p := &invalid.Problems[i]
			number, rest, _ := strings.Cut(strings.TrimPrefix(p.Path, "rules["), "]")
			if n, err := strconv.Atoi(number); err == nil && n < len(ids) {
				p.Path = JoinPath("rules/"+ids[n], strings.TrimPrefix(rest, "."))
			}
		}
	}
	return set, err
}
