package edit

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/server/control"
)

// Options configure an Editor. All are required.
type Options struct {
	DB     control.DB
	Now    func() time.Time
	Logger *slog.Logger
	// Committed is called after each change.
	Committed func(*control.Change)
}

// An Editor changes namespaces. It is safe for concurrent use.
type Editor struct {
	options Options

	mu         sync.Mutex
	namespaces map[string]*namespace
	recent     []string // names of namespaces, the last used last
}

// NewEditor returns an Editor.
func NewEditor(o Options) *Editor {
	return &Editor{options: o, namespaces: make(map[string]*namespace)}
}

// maxNamespaces is the maximum number of namespaces in memory.
const maxNamespaces = 64

// namespace returns a namespace, which may have to be loaded.
func (e *Editor) namespace(name string) *namespace {
	e.mu.Lock()
	defer e.mu.Unlock()
	ns := e.namespaces[name]
	if ns == nil {
		if len(e.namespaces) == maxNamespaces {
			// An edit that is using it can go on: it commits only if the database has not changed.
			delete(e.namespaces, e.recent[0])
			e.recent = e.recent[1:]
		}
		ns = &namespace{name: name, db: e.options.DB}
		e.namespaces[name] = ns
	}
	if i := slices.Index(e.recent, name); i >= 0 {
		e.recent = slices.Delete(e.recent, i, i+1)
	}
	e.recent = append(e.recent, name)
	return ns
}

// Preload loads the namespaces of the database, so that the first edit does not wait for it.
func (e *Editor) Preload(ctx context.Context) {
	names, err := e.options.DB.Namespaces(ctx)
	for _, name := range names[:min(len(names), maxNamespaces)] {
		if name == control.SystemNamespace || ctx.Err() != nil {
			continue
		}
		ns := e.namespace(name)
		ns.mu.Lock()
		err = errors.Join(err, ns.refresh(ctx))
		ns.mu.Unlock()
	}
	if err != nil && ctx.Err() == nil {
		e.options.Logger.Warn("rules service: a namespace was not preloaded, loading it at the first edit",
			"err", err.Error())
	}
}

// Get returns an object, or nil if it does not exist.
func (e *Editor) Get(ctx context.Context, namespace string, kind control.Kind, id string) (*control.Object, error) {
	return get(ctx, e.options.DB, namespace, kind, id)
}

func get(ctx context.Context, db control.DB, namespace string, kind control.Kind, id string) (*control.Object, error) {
	if id == "" || len(id) > control.MaxID || !control.IsText(id) {
		return nil, nil
	}
	o, err := db.Get(ctx, namespace, kind, id)
	if errors.Is(err, control.ErrNotFound) {
		return nil, nil
	}
	return o, err
}

// A plan computes the edits of one commit.
type plan interface {
	// edits returns the edits of the namespace in its current state, none if nothing has to change. It is called again if
	// another process changes the namespace before the edits are committed.
	edits(ctx context.Context, ns *namespace) ([]Edit, error)
}

// A Condition is what a caller requires of the current revision of an object or a namespace. The zero Condition holds
// for every revision.
type Condition struct {
	// Given means that the caller has sent a condition.
	Given bool
	// Any matches every object that exists.
	Any       bool
	Revisions []int64
}

// Matches reports whether the condition names a revision. Revision 0 stands for an object that does not exist.
func (c *Condition) Matches(revision int64) bool {
	return c.Any && revision != 0 || slices.Contains(c.Revisions, revision)
}

// CommitOptions are the options of a change of several objects.
type CommitOptions struct {
	// Match is the condition for the namespace's revision.
	Match Condition
	// DryRun computes and checks the change, but does not commit it.
	DryRun bool
}

const (
	// commitTimeout limits one call of commit.
	commitTimeout = time.Minute
	// maxTries is how often a change is computed if others change the namespace at the same time.
	maxTries = 20
)

// commit makes the change that a plan computes if the namespace is valid after it. The operations, the revision and the
// time of the change are set here. commit returns false if there was nothing to change, or with DryRun.
func (e *Editor) commit(
	ctx context.Context, change *control.Change, p plan, o CommitOptions,
) (committed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	ns := e.namespace(change.Namespace)
	ns.mu.Lock()
	defer ns.mu.Unlock()
	for range maxTries - 1 {
		committed, err = e.tryCommit(ctx, ns, change, p, o)
		var conflict *control.Conflict
		if !errors.As(err, &conflict) {
			return committed, err // if the error leaves open whether it was committed, the next refresh finds out
		}
	}
	return e.tryCommit(ctx, ns, change, p, o)
}

// tryCommit makes one attempt. The error is a *control.Conflict if the namespace was changed meanwhile.
func (e *Editor) tryCommit(
	ctx context.Context, ns *namespace, change *control.Change, p plan, o CommitOptions,
) (committed bool, err error) {
	if err := ns.refresh(ctx); err != nil {
		return false, err
	}
	change.Base = ns.last
	edits, err := p.edits(ctx, ns)
	if err != nil {
		return false, err
	}
	if o.Match.Given && !o.Match.Matches(ns.last) {
		return false, staleNamespace(ns)
	}
	if len(edits) == 0 {
		return false, nil
	}
	before, err := ns.apply(edits)
	if err != nil {
		return false, err
	}
	change.Ops = make([]control.Op, len(edits))
	for i := range edits {
		change.Ops[i] = control.Op{Kind: edits[i].Kind, ID: edits[i].ID, Base: edits[i].base, Body: edits[i].Body}
	}
	if o.DryRun {
		before.restore()
		return false, change.Validate() // as the database would
	}
	if err := e.options.DB.Commit(ctx, change); err != nil {
		before.restore()
		return false, err
	}
	ns.mark, ns.last = control.MarkOf(change.Revision, change.Time), change.Revision
	e.options.Committed(change)
	return true, nil
}
