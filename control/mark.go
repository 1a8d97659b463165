package control

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Mark names what a namespace is at: a revision, and when it was committed. The number alone may mean two things, since a
// database that was restored, or whose server has lost its last changes, counts on from an earlier one.
type Mark struct {
	Revision int64
	// At is in microseconds since 1970, by the database's clock; 0 if it is not known.
	At int64
}

// MarkOf returns the mark of a revision that was committed at a time, which is zero if it is not known.
func MarkOf(revision int64, at time.Time) Mark {
	if at.IsZero() {
		return Mark{Revision: revision}
	}
	return Mark{Revision: revision, At: at.UnixMicro()}
}

// Mark returns what a header leads to.
func (h *Header) Mark() Mark { return MarkOf(h.Revision, h.Time) }

// Time returns when it was committed, zero if that is not known.
func (m Mark) Time() time.Time {
	if m.At == 0 {
		return time.Time{}
	}
	return time.UnixMicro(m.At).UTC()
}

// String writes it as ParseMark reads it: "42-1763200000000000".
func (m Mark) String() string {
	return strconv.FormatInt(m.Revision, 10) + "-" + strconv.FormatInt(m.At, 10)
}

// ParseMark reads what String wrote.
func ParseMark(text string) (Mark, error) {
	first, second, ok := strings.Cut(text, "-")
	revision, err := strconv.ParseUint(first, 10, 63)
	at, err2 := strconv.ParseUint(second, 10, 63)
	if !ok || err != nil || err2 != nil {
		return Mark{}, fmt.Errorf("mark %.64q: want a revision and microseconds, such as 42-1763200000000000", text)
	}
	return Mark{Revision: int64(revision), At: int64(at)}, nil
}
