package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules"
)

// A space is a namespace as the database has it, made ready for changes to be held against: its rules compiled, its clients
// registered. Who changes one client does so in the time that one client takes, however many there are.
type space struct {
	name string

	mu     sync.Mutex // held by who changes the namespace
	loaded bool
	// revision is that of what nodes get, which is all that is here; last is the namespace's.
	revision, last int64
	rules          map[string]heldRule
	set            *rules.Set
	clients        *rules.Registry
	// shapes are the different limits that clients have.
	shapes    map[string]*shape
	overrides map[string]control.Override
}

// A shape is the limits that some clients have.
type shape struct {
	like  rules.Client // that comes under the same rules with the same limits
	count int
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

// maxCaughtUp is how many changed objects a space takes in one by one; it is loaded anew for more.
const maxCaughtUp = 50_000

// refresh makes the space what the database has.
func (sp *space) refresh(ctx context.Context, db control.DB) error {
	last, forNodes, err := db.Revision(ctx, sp.name)
	if err != nil {
		return err
	}
	if sp.last = last; sp.loaded && sp.revision == forNodes {
		return nil
	}
	if sp.loaded && sp.revision < forNodes {
		changed, revision, err := db.Since(ctx, sp.name, sp.revision, maxCaughtUp)
		switch {
		case errors.Is(err, control.ErrPruned):
		case err != nil:
			return err
		default:
			if err := sp.catchUp(changed); err == nil {
				sp.revision = revision
				return nil
			}
			// It was loaded from what can't be now: begin again.
		}
	}
	return sp.load(ctx, db)
}

// load reads all of it.
func (sp *space) load(ctx context.Context, db control.DB) error {
	sp.loaded = false
	sp.rules, sp.overrides, sp.shapes = map[string]heldRule{}, map[string]control.Override{}, map[string]*shape{}
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
	sp.loaded, sp.revision = true, revision
	return nil
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
			return sp.addClient(c)
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

func (sp *space) addClient(c rules.Client) error {
	if err := sp.clients.Add(c); err != nil {
		return err
	}
	key := shapeKey(&c)
	if key == "" {
		return nil
	}
	of := sp.shapes[key]
	if of == nil {
		of = &shape{like: likeOf(&c)}
		sp.shapes[key] = of
	}
	of.count++
	return nil
}

// dropClient forgets a client and returns it, false if there is none.
func (sp *space) dropClient(id string) (rules.Client, bool) {
	c, ok := sp.clients.Remove(id)
	if !ok {
		return rules.Client{}, false
	}
	c = asGiven(c)
	key := shapeKey(&c)
	if of := sp.shapes[key]; of != nil {
		if of.count--; of.count == 0 {
			delete(sp.shapes, key)
		}
	}
	return c, true
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

// shapeKey returns a text that is the same for clients that come under the same rules with the same limits; empty for one
// that has none of its own, with which nothing can be wrong.
func shapeKey(c *rules.Client) string {
	if len(c.Limits) == 0 && len(c.Rules) == 0 {
		return ""
	}
	var key strings.Builder
	add := func(parts ...string) {
		for _, p := range parts {
			key.WriteString(p)
			key.WriteByte(0)
		}
	}
	names := make([]string, 0, 4)
	for _, t := range c.Attributes {
		names = append(names, t.Attribute.String())
	}
	if len(names) == 0 {
		names = append(names, "user") // whose value is its id
	}
	slices.Sort(names)
	add(names...)
	addLimits := func(limits []rules.Limit) {
		for i := range limits {
			add(limits[i].Name, limits[i].String())
		}
	}
	add("")
	addLimits(c.Limits)
	for i := range c.Rules {
		add("", c.Rules[i].ID)
		addLimits(c.Rules[i].Limits)
	}
	return key.String()
}

// likeOf returns a client of the same shape.
func likeOf(c *rules.Client) rules.Client {
	like := rules.Client{ID: "x", Limits: c.Limits, Rules: c.Rules}
	for _, t := range c.Attributes {
		like.Attributes = append(like.Attributes, rules.Test{Attribute: t.Attribute, Values: []string{someValue(t.Attribute.Kind)}})
	}
	return like
}

// someValue returns a value that an attribute may have.
func someValue(kind headgate.AttributeKind) string {
	switch kind {
	case headgate.AttrIP:
		return "192.0.2.1"
	case headgate.AttrPath:
		return "/x"
	default:
		return "x"
	}
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

// An edit is what is to become of one object.
type edit struct {
	kind control.Kind
	id   string
	base int64
	body []byte // nil deletes it
	// One of these is what body says.
	rule     *rules.Rule
	client   *rules.Client
	override *control.Override
	// path is where it stands in what was sent, line in which line.
	path string
	line int
}

// maxOverrides is how many a namespace may have.
const maxOverrides = 10_000

// try holds edits against the space and makes it what they say. Undo takes that back. The error is a *problem that says
// everything that is wrong; then nothing is changed.
func (sp *space) try(edits []edit) (undo func(), err error) {
	var wrong findings
	rulesBefore, setBefore := sp.rules, sp.set
	overridesBefore := sp.overrides
	var dropped []rules.Client
	var added []string
	undo = func() {
		sp.rules, sp.set, sp.overrides = rulesBefore, setBefore, overridesBefore
		for _, id := range added {
			sp.dropClient(id)
		}
		for _, c := range dropped {
			if err := sp.addClient(c); err != nil { // it was there before, so that this is a fault of ours
				sp.loaded = false
			}
		}
	}
	needs := sp.tryRules(edits, &wrong)
	if len(wrong.list) == 0 {
		for i := range edits {
			if edits[i].kind == control.KindClient {
				if c, ok := sp.dropClient(edits[i].id); ok {
					dropped = append(dropped, c)
				}
			}
		}
		for i := range edits {
			if e := &edits[i]; e.client != nil {
				if sp.tryClient(e, &wrong) {
					added = append(added, e.id)
				}
			}
		}
		if needs {
			sp.checkShapes(&wrong)
		}
		sp.tryOverrides(edits, needs, &wrong)
	}
	if len(wrong.list) > 0 {
		undo()
		return nil, invalid(wrong.list, wrong.more)
	}
	return undo, nil
}

// findings are what is wrong.
type findings struct {
	list []fieldError
	more int
}

func (f *findings) add(e fieldError) {
	if len(f.list) == rules.MaxProblems {
		f.more++
		return
	}
	f.list = append(f.list, e)
}

// addAll adds what rules say is wrong with an edit. Cut is how they begin their paths.
func (f *findings) addAll(err error, e *edit, cut ...string) {
	var wrong *rules.Error
	if !errors.As(err, &wrong) {
		f.add(fieldError{Path: e.path, Value: err.Error(), Want: "something else", Line: e.line})
		return
	}
	for _, one := range ruleErrors(wrong) {
		for _, prefix := range cut {
			one.Path = strings.TrimPrefix(one.Path, prefix)
		}
		one.Path, one.Line = join(e.path, one.Path), e.line
		f.add(one)
	}
	f.more += wrong.More
}

// tryRules compiles the rules as they will be, and tells whether they will ask something else of clients.
func (sp *space) tryRules(edits []edit, wrong *findings) (needs bool) {
	if !slices.ContainsFunc(edits, func(e edit) bool { return e.kind == control.KindRule }) {
		return false
	}
	next := maps.Clone(sp.rules)
	paths := map[string]string{}
	needs = len(sp.shapes) == 0 && len(sp.overrides) == 0 // then nothing is held against them
	for i := range edits {
		e := &edits[i]
		if e.kind != control.KindRule {
			continue
		}
		before, was := next[e.id]
		if e.rule == nil {
			delete(next, e.id)
			needs = needs || was
			continue
		}
		next[e.id] = heldRule{*e.rule, e.body}
		paths["rules/"+e.id] = e.path
		needs = needs || !was || needOf(before.rule) != needOf(*e.rule)
	}
	set, err := compile(next)
	var invalid *rules.Error
	switch {
	case errors.As(err, &invalid):
		for _, one := range ruleErrors(invalid) {
			for of, path := range paths {
				if rest, ok := strings.CutPrefix(one.Path, of+"."); ok {
					one.Path = join(path, rest)
				}
			}
			wrong.add(one)
		}
		wrong.more += invalid.More
		return needs
	case err != nil:
		wrong.add(fieldError{Value: err.Error(), Want: "rules that compile"})
		return needs
	}
	sp.rules, sp.set = next, set
	return needs
}

// needOf returns what a rule asks of the limits of clients, as a text to compare.
func needOf(r rules.Rule) string {
	asks := rules.Rule{
		ID: r.ID, Key: r.Key, Fallback: r.Fallback, Unlimited: r.Unlimited, Block: r.Block, Cost: r.Cost, CountRejected: r.CountRejected,
		Consistency: r.Consistency, Split: r.Split, OnLimit: r.OnLimit, Safe: r.Safe, Penalty: r.Penalty,
	}
	return string(control.RuleBody(asks))
}

// tryClient registers a client, and tells whether it could.
func (sp *space) tryClient(e *edit, wrong *findings) bool {
	if err := sp.set.Check(*e.client); err != nil {
		wrong.addAll(err, e, "client.", "client")
		return false
	}
	if err := sp.addClient(*e.client); err != nil {
		wrong.addAll(err, e, "client.", "client")
		return false
	}
	return true
}

// checkShapes says which clients have limits that they could not have under the rules.
func (sp *space) checkShapes(wrong *findings) {
	for _, key := range slices.Sorted(maps.Keys(sp.shapes)) {
		of := sp.shapes[key]
		var invalid *rules.Error
		if !errors.As(sp.set.Check(of.like), &invalid) {
			continue
		}
		for _, one := range ruleErrors(invalid) {
			path := strings.TrimPrefix(one.Path, "client.")
			if strings.HasPrefix(path, "attributes") || path == "id" {
				continue // these are made up
			}
			one.Path = "clients"
			one.Value = strconv.Itoa(of.count) + " with " + strings.Join(limitsOf(&of.like), ", ") + " (" + path + "): " + one.Value
			wrong.add(one)
		}
	}
}

// limitsOf returns the limits of a client as they are written.
func limitsOf(c *rules.Client) []string {
	var list []string
	for _, l := range c.Limits {
		list = append(list, l.String())
	}
	for _, r := range c.Rules {
		for _, l := range r.Limits {
			list = append(list, r.ID+": "+l.String())
		}
	}
	return list
}

// tryOverrides takes overrides, and says which cannot be used. Those of a rule that is gone do nothing until it is back.
func (sp *space) tryOverrides(edits []edit, needs bool, wrong *findings) {
	next, cloned := sp.overrides, false
	for i := range edits {
		e := &edits[i]
		if e.kind != control.KindOverride {
			continue
		}
		if !cloned {
			next, cloned = maps.Clone(next), true
		}
		if e.override == nil {
			delete(next, e.id)
			continue
		}
		next[e.id] = *e.override
		if err := sp.checkOverride(e.override); err != nil {
			wrong.addAll(err, e, "client.", "rules[0].")
		}
	}
	if len(next) > maxOverrides && len(next) > len(sp.overrides) {
		wrong.add(fieldError{Path: "overrides", Value: strconv.Itoa(len(next)), Want: "at most " + strconv.Itoa(maxOverrides) + " in a namespace; what lasts is a client's limit"})
	}
	sp.overrides = next
	if !needs {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(next)) {
		o := next[id]
		if o.Rule != "" && sp.set.Rule(o.Rule) == nil {
			continue
		}
		if err := sp.checkOverride(&o); err != nil {
			wrong.addAll(err, &edit{path: "overrides/" + id}, "client.", "rules[0].")
		}
	}
}

func (sp *space) checkOverride(o *control.Override) error {
	c, err := o.Registered()
	if err != nil {
		return err
	}
	return sp.set.Check(c)
}

// maxTries is how often a change is held against the namespace anew because others changed it meanwhile.
const maxTries = 20

// A request is a change that somebody asks for.
type request struct {
	change *control.Change // without its ops
	// match, if it is given, is what the namespace's revision has to be.
	match condition
	// edits returns what is to be done to the space as it is. None is no change.
	edits func(ctx context.Context, sp *space) ([]edit, error)
	// dryRun commits nothing.
	dryRun bool
}

// commit makes a change if nothing is wrong with what the namespace would be then. It returns false if there is nothing to
// change, or it was a dry run.
func (s *Server) commit(ctx context.Context, r request) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	sp := s.spaces.get(r.change.Namespace)
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for try := 1; ; try++ {
		if err := sp.refresh(ctx, s.config.DB); err != nil {
			return false, err
		}
		if r.match.given && !r.match.holds(sp.last) {
			p := fail(http.StatusPreconditionFailed, "The namespace %s is at revision %d.", sp.name, sp.last)
			p.Current = revised{sp.last}
			return false, p
		}
		edits, err := r.edits(ctx, sp)
		if err != nil || len(edits) == 0 {
			return false, err
		}
		undo, err := sp.try(edits)
		if err != nil {
			return false, err
		}
		if r.dryRun {
			undo()
			return false, nil
		}
		r.change.Base = sp.last
		r.change.Ops = make([]control.Op, len(edits))
		for i := range edits {
			r.change.Ops[i] = control.Op{Kind: edits[i].kind, ID: edits[i].id, Base: edits[i].base, Body: edits[i].body}
		}
		err = s.config.DB.Commit(ctx, r.change)
		if err == nil {
			sp.revision, sp.last = r.change.Revision, r.change.Revision
			s.committed(r.change)
			return true, nil
		}
		undo()
		var conflict *control.Conflict
		if !errors.As(err, &conflict) || try == maxTries {
			return false, err // if it was committed after all, the next to come sees it
		}
		// Others were faster: what they did may be what is wrong with this now.
	}
}

// warm loads the namespaces that there are, so that the first who changes one need not wait for that.
func (s *Server) warm() {
	names, err := s.config.DB.Namespaces(s.ended)
	for _, name := range names[:min(len(names), maxSpaces)] {
		if name == systemNamespace || s.ended.Err() != nil {
			continue
		}
		sp := s.spaces.get(name)
		sp.mu.Lock()
		err = errors.Join(err, sp.refresh(s.ended, s.config.DB))
		sp.mu.Unlock()
	}
	if err != nil && s.ended.Err() == nil {
		s.config.Logger.Warn("rules service: a namespace is loaded when it is changed", "error", err.Error())
	}
}

// committed tells of a change.
func (s *Server) committed(c *control.Change) {
	s.snapshots.noteTime(c.Namespace, c.Revision, c.Time)
	s.hub.poke()
	s.hooks.announce(c.Namespace, c.Revision, c.Time)
}
