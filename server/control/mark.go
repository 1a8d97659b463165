package control

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Mark identifies a revision by its number and its commit time. The number alone is ambiguous: a database that was
// restored from a backup, or that lost its last changes, assigns the same numbers again.
type Mark struct {
	Revision int64
	// CommitMicros is the commit time in Unix microseconds, by the database's clock; 0 if it is unknown.
	CommitMicros int64
}

// NewMark returns the mark of a revision that was committed at the given time, zero if the time is unknown.
func NewMark(revision int64, at time.Time) Mark {
	if at.IsZero() {
		return Mark{Revision: revision}
	}
	return Mark{Revision: revision, CommitMicros: at.UnixMicro()}
}

// LoadMark reads the commit time of a revision from the database and returns the revision's mark. Revision 0, an empty
// namespace, has the zero Mark.
func LoadMark(ctx context.Context, db DB, revision int64) (Mark, error) {
	if revision == 0 {
		return Mark{}, nil
	}
	at, err := db.Committed(ctx, revision)
	return NewMark(revision, at), err
}

// LoadCurrentMark returns the mark of the namespace's last revision that changed an object for nodes. Changes of tokens
// and webhooks do not count.
func LoadCurrentMark(ctx context.Context, db DB, namespace string) (Mark, error) {
	_, revision, err := db.Revision(ctx, namespace)
	if err != nil {
		return Mark{}, err
	}
	return LoadMark(ctx, db, revision)
}

// Mark returns the mark of a snapshot.
func (h *Header) Mark() Mark { return NewMark(h.Revision, h.Time) }

// Time returns the time of the commit, zero if it is unknown.
func (m Mark) Time() time.Time {
	if m.CommitMicros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(m.CommitMicros).UTC()
}

// String returns the revision and the commit time in microseconds, such as "42-1763200000000000".
func (m Mark) String() string {
	return strconv.FormatInt(m.Revision, 10) + "-" + strconv.FormatInt(m.CommitMicros, 10)
}

// ParseMark parses the result of String.
func ParseMark(text string) (Mark, error) {
	revisionText, microsText, ok := strings.Cut(text, "-")
	revision, revisionErr := strconv.ParseUint(revisionText, 10, 63)
	micros, microsErr := strconv.ParseUint(microsText, 10, 63)
	if !ok || revisionErr != nil || microsErr != nil {
		return Mark{}, fmt.Errorf("mark %.64q: want a revision and microseconds, such as 42-1763200000000000", text)
	}
	return Mark{Revision: int64(revision), CommitMicros: int64(micros)}, nil
}
