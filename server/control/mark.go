package control

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Mark identifies a revision by its number and the time of its commit. The number alone is ambiguous: a database that
// was restored, or whose server has lost its last changes, assigns the same numbers again.
type Mark struct {
	Revision int64
	// At is the time of the commit in Unix microseconds, by the database's clock; 0 if it is unknown.
	At int64
}

// MarkOf returns the mark of a revision and the time of its commit, which is zero if it is unknown.
func MarkOf(revision int64, at time.Time) Mark {
	if at.IsZero() {
		return Mark{Revision: revision}
	}
	return Mark{Revision: revision, At: at.UnixMicro()}
}

// MarkAt returns the mark of a revision in a database, zero for revision 0.
func MarkAt(ctx context.Context, db DB, revision int64) (Mark, error) {
	if revision == 0 {
		return Mark{}, nil
	}
	at, err := db.Committed(ctx, revision)
	return MarkOf(revision, at), err
}

// CurrentMark returns the mark of the last change of a namespace that nodes receive.
func CurrentMark(ctx context.Context, db DB, namespace string) (Mark, error) {
	_, revision, err := db.Revision(ctx, namespace)
	if err != nil {
		return Mark{}, err
	}
	return MarkAt(ctx, db, revision)
}

// Mark returns the mark of a snapshot.
func (h *Header) Mark() Mark { return MarkOf(h.Revision, h.Time) }

// Time returns the time of the commit, zero if it is unknown.
func (m Mark) Time() time.Time {
	if m.At == 0 {
		return time.Time{}
	}
	return time.UnixMicro(m.At).UTC()
}

// String returns the form that ParseMark reads: "42-1763200000000000".
func (m Mark) String() string {
	return strconv.FormatInt(m.Revision, 10) + "-" + strconv.FormatInt(m.At, 10)
}

// ParseMark reads the form that String returns.
func ParseMark(text string) (Mark, error) {
	first, second, ok := strings.Cut(text, "-")
	revision, errRevision := strconv.ParseUint(first, 10, 63)
	at, errAt := strconv.ParseUint(second, 10, 63)
	if !ok || errRevision != nil || errAt != nil {
		return Mark{}, fmt.Errorf("mark %.64q: want a revision and microseconds, such as 42-1763200000000000", text)
	}
	return Mark{Revision: int64(revision), At: int64(at)}, nil
}
