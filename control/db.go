package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// A Kind is what an object is.
type Kind string

// The kinds of objects.
const (
	KindRule     Kind = "rule"
	KindClient   Kind = "client"
	KindOverride Kind = "override" // for a while, of one client
	KindToken    Kind = "token"
	KindWebhook  Kind = "webhook"
	KindEvent    Kind = "event" // what was last done of a sort that changes no object; the log has each
)

// ForNodes reports whether nodes get objects of the kind.
func (k Kind) ForNodes() bool { return k == KindRule || k == KindClient || k == KindOverride }

// An Object is something that is kept.
type Object struct {
	Namespace string
	Kind      Kind
	ID        string
	// Revision is that of the change that made it what it is.
	Revision int64
	// Body is JSON, in one form only: what is equal is equal in bytes.
	Body []byte
	// Created and Updated are when it came, and when it became what it is; By who made it that.
	Created, Updated time.Time
	By               string
}

// An Op is one object's part of a Change.
type Op struct {
	Kind Kind
	ID   string
	// Base is the revision that the object has to be at: Absent if there must be none, Any if it does not matter.
	Base int64
	// Body is what it becomes. Nil deletes it; what is not there cannot be deleted.
	Body []byte
	// Before is what it was, nil if it was not there. Commit fills it in.
	Before []byte
}

// What an Op may ask of an object.
const (
	Any    int64 = -1
	Absent int64 = 0
)

// A Change is applied whole or not at all.
type Change struct {
	// Revision is the change's place in the one sequence that all namespaces share. Commit fills it in.
	Revision int64
	// Namespace is where all its objects are.
	Namespace string
	// Time is when it was committed, by the database's own clock where it has one. Commit fills it in.
	Time time.Time
	// Actor is who made it, From the address it came from, Action what was asked ("rules.apply"), Note what they say of it.
	Actor, From, Action, Note string
	// Base, if it is not Any, is the revision that the whole namespace has to be at.
	Base int64
	Ops  []Op
}

// Errors of a DB. What is wrapped says more.
var (
	// ErrNotFound is for what is not there.
	ErrNotFound = errors.New("not found")
	// ErrConflict is wrapped by a *Conflict.
	ErrConflict = errors.New("changed by somebody else")
	// ErrNewer is for a database of a later version of the program.
	ErrNewer = errors.New("the database was written by a newer version")
	// ErrPruned is for changes that are no longer in the log.
	ErrPruned = errors.New("the log does not reach back that far")
	// ErrNotEmpty is for restoring into a database that has something in it.
	ErrNotEmpty = errors.New("the database is not empty")
	// ErrFull is for a disk or a server that has no room for a write. Reads go on.
	ErrFull = errors.New("no room to write")
	// ErrUnwritable is for a database that refuses writes although it can be read: its disk is read-only or broken, or its
	// server is a replica.
	ErrUnwritable = errors.New("the database cannot be written")
	// ErrFileGone is an ErrUnwritable: the file was removed or replaced while it was open, so that writes would be lost when
	// the process ends.
	ErrFileGone = fmt.Errorf("%w: its file was removed or replaced", ErrUnwritable)
)

// A Conflict says which object was not at the revision that a change was based on.
type Conflict struct { //nolint:errname // it is known by what it is, as other values of this package are
	Namespace  string
	Kind       Kind // empty if it is the namespace
	ID         string
	Want, Have int64 // Have is Absent if it is not there
}

func (c *Conflict) Error() string {
	what := "namespace " + c.Namespace
	if c.Kind != "" {
		what = string(c.Kind) + " " + c.ID
	}
	switch {
	case c.Want == Absent:
		return fmt.Sprintf("%s is there already, at revision %d", what, c.Have)
	case c.Have == Absent:
		return fmt.Sprintf("%s is not there", what)
	}
	return fmt.Sprintf("%s is at revision %d, not %d", what, c.Have, c.Want)
}

func (c *Conflict) Unwrap() error { return ErrConflict }

// A Query says which objects List returns: in the order of their ids, by bytes.
type Query struct {
	Namespace string // empty for all; then in the order of namespaces, then ids
	Kind      Kind
	// Search, if any, is what the id or the body has to contain, whatever the case of ASCII letters. Names of fields do not count.
	Search string
	// After is the last object of the page before, as namespace and id.
	AfterNamespace, AfterID string
	// Limit is the most to return, at least 1.
	Limit int
}

// A LogQuery says which changes Log returns.
type LogQuery struct {
	Namespace string // empty for all
	// Kind and ID, if any, are what a change has to have touched.
	Kind Kind
	ID   string
	// After and Before are revisions that bound it, without them: Before 0 is no bound.
	After, Before int64
	// Newest returns the latest first.
	Newest bool
	// Limit is the most to return, at least 1.
	Limit int
}

// A State is something that is known for a while and needs no history: what a node last said of itself, a delivery that
// failed. States are kept apart from objects and have no revision.
type State struct {
	Bucket  string // such as "node"
	ID      string
	Body    []byte // JSON
	Expires time.Time
}

// A DB keeps objects, the log of their changes, and states. It is safe for concurrent use, by several processes as well.
// All that is written is durable when the call returns. Errors that are not among those above are the database's own.
type DB interface {
	// Commit applies a change if all it touches is at the revision it is based on, and fills in Revision, Time and what
	// was before. The error is a *Conflict if not. A change without ops is refused.
	Commit(ctx context.Context, c *Change) error
	// Revision returns the revision of the last change of a namespace, or of all if it is empty; 0 if there was none.
	// ForNodes is the last that touched what nodes get.
	Revision(ctx context.Context, namespace string) (last, forNodes int64, err error)
	// Get returns an object, or ErrNotFound.
	Get(ctx context.Context, namespace string, kind Kind, id string) (*Object, error)
	// List returns a page of objects.
	List(ctx context.Context, q Query) ([]Object, error)
	// Count returns how many objects List would return without a limit.
	Count(ctx context.Context, q Query) (int, error)
	// Namespaces returns the names of those that have objects.
	Namespaces(ctx context.Context) ([]string, error)
	// Snapshot calls each for all objects of a namespace that nodes get, rules first, as they were together at the revision
	// that it returns (as forNodes above). It stops with the error of each.
	Snapshot(ctx context.Context, namespace string, each func(*Object) error) (revision int64, err error)
	// Log returns changes in the order of their revisions. Bodies of tokens and webhooks are in it as they were committed:
	// who serves it hides them.
	Log(ctx context.Context, q LogQuery) ([]Change, error)
	// Committed returns when a revision was committed, the zero time if the log does not tell.
	Committed(ctx context.Context, revision int64) (time.Time, error)
	// Since returns, for the objects of a namespace that nodes get and that were changed after a revision, what they are now
	// (Body nil if they are gone), and the revision that this leads to. ErrPruned if the log no longer tells; more than
	// limit objects are ErrPruned, too: a snapshot is better then.
	Since(ctx context.Context, namespace string, after int64, limit int) (changed []Object, revision int64, err error)
	// At returns the objects of a kind of a namespace as they were at a revision. ErrPruned as Since.
	At(ctx context.Context, namespace string, kind Kind, revision int64) ([]Object, error)
	// Watch yields the revision of each change, of whatever process, soon after it is committed, until ctx ends; it may leave
	// out all but the last of several. The first is the present one. It goes on when the database was away.
	Watch(ctx context.Context) iter.Seq[int64]

	// PutState keeps a state until it expires, GetState returns it (ErrNotFound), States those of a bucket by id,
	// DeleteState forgets it. Those that have expired are as if they were not there.
	PutState(ctx context.Context, s State) error
	GetState(ctx context.Context, bucket, id string) (*State, error)
	States(ctx context.Context, bucket string, limit int) ([]State, error)
	DeleteState(ctx context.Context, bucket, id string) error

	// Prune forgets changes before a time, but keeps at least the last of each object so that Since and At know how far back
	// they reach. It returns how many.
	Prune(ctx context.Context, before time.Time) (int, error)
	// Dump writes everything as it is at one moment. The form is the same for all databases, so that one can be moved to
	// another. Others go on meanwhile.
	Dump(ctx context.Context, w io.Writer) error
	// Restore takes what Dump wrote in place of all that there is, whole or not at all. Over is the revision that the database
	// has to be at (else ErrNotEmpty): Absent if it has to be empty, Any if it does not matter what is lost.
	Restore(ctx context.Context, r io.Reader, over int64) error
	// Writable returns why writes fail, as far as the database knows without one: an ErrUnwritable, or nil. It is cheap.
	Writable(ctx context.Context) error
	// Name says what it is and where, without passwords, for people: "sqlite /var/lib/headgate/rules.db".
	Name() string
	// Close ends it. Watches end with it.
	Close() error
}
