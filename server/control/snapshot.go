package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/server/control/internal/lines"
)

// SnapshotType is the media type of a snapshot.
const SnapshotType = "application/x-ndjson"

// MaxLine is the maximum size of a line of a snapshot in bytes.
const MaxLine = 1 << 20

// A Header is the first line of a snapshot. A snapshot contains all objects of a namespace, or only those that have
// changed since a revision.
type Header struct {
	Namespace string `json:"namespace"`
	// Revision is the revision of the content. Since is the revision after which the objects have changed, 0 if the
	// snapshot contains all objects.
	Revision int64 `json:"revision"`
	Since    int64 `json:"since,omitempty"`
	// Time is the time of Revision's commit, zero if it is unknown.
	Time time.Time `json:"time,omitzero"`
}

// An Item is one object of a snapshot.
type Item struct {
	Kind     Kind            `json:"kind"`
	ID       string          `json:"id"`
	Revision int64           `json:"revision,omitempty"`
	Body     json.RawMessage `json:"body,omitempty"`
	Deleted  bool            `json:"deleted,omitempty"`
}

// Item returns the object for a snapshot. An object without a body was deleted.
func (o *Object) Item() *Item {
	return &Item{Kind: o.Kind, ID: o.ID, Revision: o.Revision, Body: o.Body, Deleted: o.Body == nil}
}

// A Writer writes a snapshot, one line per object. The format is the same on the wire and in a node's file.
type Writer struct{ lines *lines.Writer }

// countField is the name of the field with the number of objects, in the last line of a snapshot.
const countField = "objects"

// NewWriter writes the header and returns a Writer.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	snapshot := &Writer{lines.NewWriter(w, MaxLine, countField)}
	return snapshot, writeError(snapshot.lines.Write(h))
}

// Write writes one object.
func (w *Writer) Write(i *Item) error { return writeError(w.lines.Write(i)) }

// Close writes the last line. A Reader refuses a snapshot without this line.
func (w *Writer) Close() error { return writeError(w.lines.Close()) }

func writeError(err error) error {
	if err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	return nil
}

// ErrBroken means that a snapshot is incomplete or its checksum is wrong.
var ErrBroken = errors.New("incomplete or damaged snapshot")

// A Reader reads a snapshot.
type Reader struct {
	Header Header

	lines *lines.Reader
}

// NewReader reads the header and returns a Reader.
func NewReader(r io.Reader) (*Reader, error) {
	snapshot := &Reader{lines: lines.NewReader(r, MaxLine, countField)}
	if _, err := snapshot.lines.Next(&snapshot.Header); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return snapshot, nil
}

// Next returns the next object, or io.EOF after the last one if the snapshot is complete. The object is valid until the
// next call. Do not use any object before io.EOF.
func (r *Reader) Next() (*Item, error) {
	var item Item
	switch more, err := r.lines.Next(&item); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	case !more:
		return nil, io.EOF
	}
	return &item, nil
}
