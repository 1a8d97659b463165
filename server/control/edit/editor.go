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
	recent     []string // keys of namespaces, least recently used first
}

// NewEditor returns an Editor.
func NewEditor(o Options) *Editor {
	return &Editor{options: o, namespaces: make(map[string]*namespace)}
}

// maxNamespaces is the maximum number of namespaces in memory. The least recently used one is evicted.
const maxNamespaces = 64

// namespace returns a namespace from memory, or an empty one to load.
func (e *Editor) namespace(name string) *namespace {
	e.mu.Lock()
	defer e.mu.Unlock()
	ns := e.namespaces[name]
	if ns == nil {
		if len(e.namespaces) == maxNamespaces {
			// An edit in progress may still use the evicted namespace: its commit fails if the database has changed.
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

// Preload loads namespaces into memory, so that the first edit does not have to wait.
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

// Get returns an object, or nil if the object does not exist.
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

// A plan computes the edits of one change from the current content of its namespace.
type plan interface {
	// edits returns no edits if nothing has to change. The Editor calls it again if another process changes the
	// namespace before the edits are committed.
	edits(ctx context.Context, ns *namespace) ([]Edit, error)
}

// A Condition restricts the current revision of an object or a namespace, like the HTTP header If-Match. It has no
// effect unless Given is set.
type Condition struct {
	// Given reports whether the request has the condition.
	Given bool
	// Any matches every object that exists.
	Any bool
	// Revisions are the matching revisions.
	Revisions []int64
}

// Matches reports whether a revision matches. Revision 0 stands for an object that does not exist.
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
	// maxTries is the maximum number of attempts to commit a change while other processes change the namespace.
	maxTries = 20
)

// commit computes the edits of a plan, checks that the namespace is valid with them, and commits them. It sets the Ops,
// Revision and Time of the change. It returns false if the plan has no edits or o.DryRun is set.
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
			return committed, err // if it is unclear whether the change was committed, the next refresh finds out
		}
	}
	return e.tryCommit(ctx, ns, change, p, o)
}

// tryCommit makes one attempt to commit. It returns a *control.Conflict if another process changed the namespace since
// the refresh.
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
		return false, change.Validate() // the check that a real Commit begins with
	}
	if err := e.options.DB.Commit(ctx, change); err != nil {
		before.restore()
		return false, err
	}
	ns.mark, ns.last = control.NewMark(change.Revision, change.Time), change.Revision
	e.options.Committed(change)
	return true, nil
}
