package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"
)

// A Kind is the type of an object.
type Kind string

// The kinds of objects.
const (
	KindRule       Kind = "rule"
	KindClient     Kind = "client"
	KindOverride   Kind = "override"   // temporary limits of one client
	KindSuspension Kind = "suspension" // turns off the enforcement of rules for some time
	KindToken      Kind = "token"
	KindWebhook    Kind = "webhook"
	// KindEvent records an action that changes no other object, such as a restore. The object holds the last action of
	// its type. Earlier ones are in the log.
	KindEvent Kind = "event"
)

// ForNodes reports whether nodes receive objects of the kind.
func (k Kind) ForNodes() bool { return slices.Contains(NodeKinds(), k) }

// NodeKinds returns the kinds of objects that nodes receive, in the order of snapshots.
func NodeKinds() []Kind { return []Kind{KindRule, KindClient, KindOverride, KindSuspension} }

// An Object is a stored object.
type Object struct {
	Namespace string
	Kind      Kind
	ID        string
	// Revision is the revision of the object's last change.
	Revision int64
	// Body is canonical JSON: equal objects have equal bytes.
	Body []byte
	// Created and Updated are the times of the first and the last change. By is the actor of the last change.
	Created, Updated time.Time
	By               string
}

// An Op creates, replaces or deletes one object as part of a Change.
type Op struct {
	Kind Kind
	ID   string
	// Base is the revision that the object must have before the change: Absent if it must not exist, AnyRevision to skip
	// the check.
	Base int64
	// Body is the new body. Nil deletes the object, which must exist.
	Body []byte
	// Before is the body before the change, nil if the object did not exist. Commit sets it.
	Before []byte
}

// Special values of Op.Base and Change.Base.
const (
	AnyRevision int64 = -1
	Absent      int64 = 0
)

// A Change is committed completely or not at all.
type Change struct {
	// Revision is the change's number, in one sequence for all namespaces. Commit sets it.
	Revision int64
	// Namespace is the namespace of all its objects.
	Namespace string
	// Time is the time of the commit, by the clock of the database server if there is one. Commit sets it.
	Time time.Time
	// Actor is the author, such as the ID of a token. From is the author's network address, Action the type of request
	// ("rules.apply"), and Note the author's comment.
	Actor, From, Action, Note string
	// Base is the revision that the namespace must have before the change, AnyRevision to skip the check.
	Base int64
	Ops  []Op
}

// Errors of a DB. A DB may wrap them to add details.
var (
	// ErrNotFound means that an object or state does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict is wrapped by a *Conflict.
	ErrConflict = errors.New("changed by somebody else")
	// ErrNewerSchema means that a newer version of Headgate wrote the database.
	ErrNewerSchema = errors.New("the database was written by a newer version")
	// ErrPruned means that changes are no longer in the log.
	ErrPruned = errors.New("the log does not reach back that far")
	// ErrNotEmpty means that a backup was not restored, because the database has content that may not be replaced.
	ErrNotEmpty = errors.New("the database is not empty")
	// ErrFull means that a disk or server has no space for a write. Reads still work.
	ErrFull = errors.New("no space left to write")
	// ErrUnwritable means that a database refuses writes but can be read: its disk is read-only or broken, or its server
	// is a replica.
	ErrUnwritable = errors.New("the database cannot be written")
	// ErrFileGone wraps ErrUnwritable: the database file was removed or replaced while it was open. Writes would be lost
	// when the process ends.
	ErrFileGone = fmt.Errorf("%w: its file was removed or replaced", ErrUnwritable)
)

// A Conflict names an object that does not have the revision that a change is based on.
type Conflict struct { //nolint:errname // "Conflict" says it
	Namespace string
	Kind      Kind // empty for the namespace itself
	ID        string
	// Want is the revision that the change is based on, and Have the current one. Absent means that the object does not
	// exist.
	Want, Have int64
}

func (c *Conflict) Error() string {
	subject := "namespace " + c.Namespace
	if c.Kind != "" {
		subject = string(c.Kind) + " " + c.ID
	}
	switch {
	case c.Want == Absent:
		return fmt.Sprintf("%s exists already, at revision %d", subject, c.Have)
	case c.Have == Absent:
		return fmt.Sprintf("%s does not exist", subject)
	}
	return fmt.Sprintf("%s is at revision %d, not %d", subject, c.Have, c.Want)
}

func (c *Conflict) Unwrap() error { return ErrConflict }

// A Query selects the objects that List returns. They are sorted by namespace, then by ID, bytewise.
type Query struct {
	Namespace string // empty for all
	Kind      Kind
	// Search, if not empty, is a text that the ID or a value in the body must contain, ignoring the case of ASCII letters.
	// Field names in the body are not searched.
	Search string
	// AfterNamespace and AfterID name the last object of the previous page.
	AfterNamespace, AfterID string
	// Limit is the maximum number to return, at least 1.
	Limit int
}

// All returns the objects of a query, page by page: q.Limit is the size of a page. It ends after an error.
func All(ctx context.Context, db DB, q Query) iter.Seq2[*Object, error] {
	return func(yield func(*Object, error) bool) {
		for {
			objects, err := db.List(ctx, q)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range objects {
				if !yield(&objects[i], nil) {
					return
				}
			}
			if len(objects) < q.Limit {
				return
			}
			last := objects[len(objects)-1]
			q.AfterNamespace, q.AfterID = last.Namespace, last.ID
		}
	}
}

// A LogQuery selects the changes that Log returns.
type LogQuery struct {
	Namespace string // empty for all
	// Kind and ID, if not empty, select the changes of objects with this kind and this ID.
	Kind Kind
	ID   string
	// After and Before are exclusive bounds of revisions. If Before is 0, there is no upper bound.
	After, Before int64
	// Newest reverses the order: the newest change comes first.
	Newest bool
	// Limit is the maximum number to return, at least 1.
	Limit int
}

// A State is temporary data without history, such as a heartbeat or a failed delivery. States are separate from objects
// and have no revision.
type State struct {
	Bucket  string // such as "node"
	ID      string
	Body    []byte // JSON
	Expires time.Time
}

// A DB stores objects, the log of their changes, and states. It is safe for concurrent use, even by several processes.
// A write is durable once its method has returned. Errors other than those of this package are specific to the
// database.
type DB interface {
	// Commit commits a change if all its objects have the revisions that it is based on, and sets the change's Revision
	// and Time and the Before of each Op. Otherwise the error is a *Conflict. Commit refuses a change without operations.
	Commit(ctx context.Context, c *Change) error
	// Revision returns the revision of the last change of a namespace, or of all namespaces if the name is empty; 0 if
	// there is none. forNodes is the revision of the last change of an object that nodes receive.
	Revision(ctx context.Context, namespace string) (last, forNodes int64, err error)
	// Get returns an object, or ErrNotFound.
	Get(ctx context.Context, namespace string, kind Kind, id string) (*Object, error)
	// List returns a page of objects.
	List(ctx context.Context, q Query) ([]Object, error)
	// Count returns the number of objects that List would return without a limit.
	Count(ctx context.Context, q Query) (int, error)
	// Namespaces returns the names of the namespaces with objects.
	Namespaces(ctx context.Context) ([]string, error)
	// Snapshot calls visit for all objects of a namespace that nodes receive, rules first. All objects have the state
	// that they had at the returned revision, the one that Revision returns as forNodes. Snapshot stops if visit returns
	// an error.
	Snapshot(ctx context.Context, namespace string, visit func(*Object) error) (revision int64, err error)
	// Log returns changes in the order of their revisions. The bodies of tokens and webhooks in them contain secrets,
	// which callers must hide.
	Log(ctx context.Context, q LogQuery) ([]Change, error)
	// Committed returns the time of a revision's commit, zero if it is not in the log.
	Committed(ctx context.Context, revision int64) (time.Time, error)
	// Since returns the objects of a namespace that nodes receive and that were changed after a revision. All objects have
	// the state that they had at the returned revision, and deleted objects have a nil Body. The error is ErrPruned if the
	// log does not reach back that far, or if more than limit objects have changed: the caller should then fetch a
	// snapshot.
	Since(ctx context.Context, namespace string, after int64, limit int) (changed []Object, revision int64, err error)
	// At returns the objects of a namespace with this kind, as of a revision. The error is ErrPruned if the log does not
	// reach back that far.
	At(ctx context.Context, namespace string, kind Kind, revision int64) ([]Object, error)
	// Watch first yields the current revision, then the revision of each change by any process soon after its commit,
	// until ctx ends. Of several changes, it may yield only the last. It continues after outages of the database.
	Watch(ctx context.Context) iter.Seq[int64]

	// PutState stores a state until it expires. GetState returns a state, or ErrNotFound. States returns the states of a
	// bucket, sorted by ID. DeleteState deletes a state. None of them returns expired states.
	PutState(ctx context.Context, s State) error
	GetState(ctx context.Context, bucket, id string) (*State, error)
	States(ctx context.Context, bucket string, limit int) ([]State, error)
	DeleteState(ctx context.Context, bucket, id string) error

	// Prune deletes changes before a time from the log. It keeps the last change of each object, so that Since and At know
	// how far back the log reaches. It returns the number of deleted changes.
	Prune(ctx context.Context, before time.Time) (int, error)
	// Dump writes a consistent backup. The format is the same for all databases, so that content can be moved from one to
	// another. It does not block other calls.
	Dump(ctx context.Context, w io.Writer) error
	// Restore replaces all content by a backup, completely or not at all. base is the revision that the database must
	// have: Absent if it must be empty, or AnyRevision to replace any content. At another revision, the error is
	// ErrNotEmpty.
	Restore(ctx context.Context, r io.Reader, base int64) error
	// Writable returns an error that wraps ErrUnwritable if the database knows that writes would fail. It does not try to
	// write, so it is cheap.
	Writable(ctx context.Context) error
	// Name describes the database in logs, without passwords: "sqlite /var/lib/headgate/rules.db".
	Name() string
	// Close closes the database and ends all watches.
	Close() error
}
